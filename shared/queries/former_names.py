"""Names that columns of a table had before they were renamed, as long as no other column has them.

Work that was frozen under such a name still finds the column.
"""

from collections.abc import Mapping
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from shared.domain.records import CustomTable

_NOTE = """
UPDATE custom_table
SET former_names = (former_names || %(renamed)s) - %(present)s::text[]
WHERE id = %(table_id)s
"""


def note_former_names(conn: Connection, table: CustomTable, renames: Mapping[str, str]) -> None:
    """Note the old names of columns (``renames``: old to new) of a table as it is now.

    A name that a column has at present is nobody's former one.
    """
    ids = {column.name: column.id for column in table.columns}
    parameters = {
        "table_id": table.id,
        "renamed": Jsonb({old: ids[new] for old, new in renames.items()}),
        "present": list(ids),
    }
    conn.execute(_NOTE, parameters)


_FORMER_NAMES = "SELECT former_names FROM custom_table WHERE id = %(table_id)s"


def former_names(conn: Connection, table_id: UUID) -> dict[str, str]:
    """Return former name to column id; the column may be dropped since."""
    row = conn.execute(_FORMER_NAMES, {"table_id": table_id}).fetchone()
    names: dict[str, str] = {} if row is None else row[0]
    return names
