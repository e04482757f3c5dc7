"""What must hold of tables: of whose roster a slot is (I16), and that one has rules for chatrooms
or triggers, and says so (I18).
"""

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

# The key that promises it looks at new rows alone (NOT VALID): older ones are of no roster.
_SLOT_OF_ANOTHERS_ROSTER = """
SELECT 'record ' || record.id
FROM record
LEFT JOIN custom_table AS roster ON roster.id = record.roster_id
WHERE record.roster_id IS NOT NULL AND roster.tenant_id IS DISTINCT FROM record.tenant_id
ORDER BY record.id
LIMIT %(limit)s
"""

TABLE_INVARIANTS = (
    Invariant(
        number="I16",
        promise="no row refers to one of another tenant",
        statement=_SLOT_OF_ANOTHERS_ROSTER,
    ),
    Invariant(
        number="I18",
        promise="a table has rules for chatrooms or triggers, never both",
        statement=_RULES_AND_WHAT_IS_SAID,
    ),
)
