"""What must hold of staged changes: each has a way forward, and an effect exactly when applied."""

from shared.domain.invariants import Invariant
from shared.queries.life_cycle import for_both

_APPROVED_FORGOTTEN = """
SELECT 'staged change ' || id
FROM staged_change
WHERE status = 'approved' AND announce_at < %(settled_before)s
ORDER BY announce_at, id
LIMIT %(limit)s
"""

_RECEIPT_WITHOUT_CHANGE = for_both("""
SELECT format('{table} %%s, staged change %%s', work.id, receipt ->> 'staged_change_id')
FROM {table} AS work
CROSS JOIN LATERAL jsonb_array_elements(work.action_results) AS receipt
WHERE receipt -> 'staged' = 'true'
    AND receipt -> 'ok' = 'true'
    AND NOT EXISTS (
        SELECT
        FROM staged_change AS change
        WHERE change.id = (receipt ->> 'staged_change_id')::bigint
            AND change.tenant_id = work.tenant_id
            AND work.id = CASE '{table}'
                WHEN 'trigger_run' THEN change.run_id
                ELSE change.scheduled_action_id
            END
    )
ORDER BY work.id
LIMIT %(limit)s
""")

# A record that was made names its origin; one that was written has left its base behind.
_APPLIED_WITHOUT_EFFECT = """
SELECT 'staged change ' || change.id
FROM staged_change AS change
LEFT JOIN record ON record.id = change.record_id AND record.table_id = change.table_id
WHERE change.status = 'applied'
    AND CASE
        WHEN record.id IS NULL THEN true
        WHEN change.operation = 'create'
            THEN record.origin_key IS DISTINCT FROM change.origin_key
        ELSE record.version <= change.base_version
    END
ORDER BY change.id
LIMIT %(limit)s
"""

_MADE_UNAPPLIED = """
SELECT format('staged change %%s, record %%s', change.id, record.id)
FROM staged_change AS change
JOIN record ON record.table_id = change.table_id AND record.origin_key = change.origin_key
WHERE change.status <> 'applied'
ORDER BY change.id
LIMIT %(limit)s
"""

_BASE_APPLIED_TWICE = """
SELECT format('record %%s, version %%s', record_id, base_version)
FROM staged_change
WHERE status = 'applied' AND operation <> 'create'
GROUP BY record_id, base_version
HAVING count(*) > 1
ORDER BY record_id, base_version
LIMIT %(limit)s
"""

_RECORD_OF_ANOTHER_TABLE = """
SELECT 'staged change ' || change.id
FROM staged_change AS change
LEFT JOIN record ON record.id = change.record_id
LEFT JOIN trigger_run AS run ON run.id = change.run_id
LEFT JOIN scheduled_action AS action ON action.id = change.scheduled_action_id
WHERE record.table_id <> change.table_id
    OR run.tenant_id <> change.tenant_id
    OR action.tenant_id <> change.tenant_id
ORDER BY change.id
LIMIT %(limit)s
"""

_WAY_FORWARD = "what is not ended has a way forward, and takes it in time"
_EFFECT_ONCE = "an internal effect and its receipt are one"
_APPLIED_ONCE = "a change that was applied, and no other, has had its effect, once"
_APART = "no row refers to one of another tenant or table"

CHANGE_INVARIANTS = (
    Invariant(number="I8", promise=_WAY_FORWARD, statement=_APPROVED_FORGOTTEN),
    *(
        Invariant(number="I10", promise=_EFFECT_ONCE, statement=statement)
        for statement in _RECEIPT_WITHOUT_CHANGE.values()
    ),
    Invariant(number="I10", promise=_APPLIED_ONCE, statement=_APPLIED_WITHOUT_EFFECT),
    Invariant(number="I10", promise=_APPLIED_ONCE, statement=_MADE_UNAPPLIED),
    Invariant(number="I10", promise=_APPLIED_ONCE, statement=_BASE_APPLIED_TWICE),
    Invariant(number="I16", promise=_APART, statement=_RECORD_OF_ANOTHER_TABLE),
)
