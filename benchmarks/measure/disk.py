"""What rows take in the database: bytes of tables and of their indexes, and of its log."""

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.measure.servers import Database

_SIZES = "SELECT pg_table_size(%(table)s::regclass), pg_indexes_size(%(table)s::regclass)"
_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Bytes of a table with what it stores out of line, and of all its indexes."""

    table: int
    indexes: int

    def __sub__(self, earlier: "Size") -> "Size":
        return Size(table=self.table - earlier.table, indexes=self.indexes - earlier.indexes)


class Disk:
    """The files of a database, as its superuser sees them."""

    def __init__(self, database: Database) -> None:
        self._admin = database.admin()

    def sizes(self, tables: Iterable[str]) -> dict[str, Size]:
        """Return the sizes of tables, after the room of their dead rows was given back to them."""
        found = {}
        for table in tables:
            self._admin.execute(f"VACUUM {table}")
            sizes = self._admin.execute(_SIZES, {"table": table}).fetchone()
            found[table] = Size(table=sizes[0], indexes=sizes[1])
        return found

    def written(self) -> int:
        """Return how many bytes the log has had so far."""
        return self._admin.execute(_WRITTEN).fetchone()[0]

    def close(self) -> None:
        """End the session."""
        self._admin.close()
