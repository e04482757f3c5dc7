"""What must hold of tables: one has rules for chatrooms or triggers, and says so: I18."""

from shared.domain.invariants import Invariant

_RULES_AND_WHAT_IS_SAID = """
SELECT 'table ' || tables.id
FROM custom_table AS tables
CROSS JOIN LATERAL (
    SELECT EXISTS (SELECT FROM scp_rule WHERE scp_rule.table_id = tables.id) AS is_ruled
) AS told
WHERE tables.scp_ruled <> told.is_ruled OR (told.is_ruled AND tables.triggers <> '[]')
ORDER BY tables.id
LIMIT %(limit)s
"""

TABLE_INVARIANTS = (
    Invariant(
        number="I18",
        promise="a table has rules for chatrooms or triggers, never both",
        statement=_RULES_AND_WHAT_IS_SAID,
    ),
)
