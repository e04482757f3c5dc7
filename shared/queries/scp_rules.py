"""Channel SCP rules of a table, in the order in which they were written."""

from collections.abc import Sequence

from psycopg import Connection
from psycopg.rows import dict_row

from shared.domain.records import CustomTable
from shared.domain.scp_rules import ScpRule

_LIST_RULES = """
SELECT operations, chatrooms
FROM scp_rule
WHERE tenant_id = %(tenant_id)s AND table_id = %(table_id)s
ORDER BY position
"""


def list_rules(conn: Connection, table: CustomTable) -> list[ScpRule]:
    """Return the rules of a table."""
    parameters = {"tenant_id": table.tenant_id, "table_id": table.id}
    with conn.cursor(row_factory=dict_row) as cursor:
        return [
            ScpRule(operations=tuple(row["operations"]), chatrooms=tuple(row["chatrooms"]))
            for row in cursor.execute(_LIST_RULES, parameters)
        ]


_DELETE_RULES = """
DELETE FROM scp_rule
WHERE tenant_id = %(tenant_id)s AND table_id = %(table_id)s
"""

_INSERT_RULE = """
INSERT INTO scp_rule (tenant_id, table_id, position, operations, chatrooms)
VALUES (%(tenant_id)s, %(table_id)s, %(position)s, %(operations)s, %(chatrooms)s)
"""


def replace_rules(conn: Connection, table: CustomTable, rules: Sequence[ScpRule]) -> None:
    """Store these rules in place of those of a locked table; ``scp_ruled`` goes with it."""
    whose = {"tenant_id": table.tenant_id, "table_id": table.id}
    conn.execute(_DELETE_RULES, whose)
    rows = [
        whose
        | {
            "position": position,
            "operations": list(rule.operations),
            "chatrooms": list(rule.chatrooms),
        }
        for position, rule in enumerate(rules)
    ]
    conn.cursor().executemany(_INSERT_RULE, rows)
