"""What must hold of runs alone: I11, I16, I17."""

from shared.domain.invariants import Invariant

_DONE_WITHOUT_RECEIPTS = """
SELECT 'run ' || run.id
FROM trigger_run AS run
JOIN definition
    ON definition.tenant_id = run.tenant_id AND definition.hash = run.definition_hash
WHERE run.status = 'done'
    AND (
        jsonb_array_length(run.action_results)
            <> jsonb_array_length(definition.body -> 'trigger' -> 'actions')
        OR jsonb_path_exists(run.action_results, '$[*] ? (!(@.ok == true))')
    )
ORDER BY run.id
LIMIT %(limit)s
"""

_RUN_OF_ANOTHER_TABLE = """
SELECT 'run ' || run.id
FROM trigger_run AS run
LEFT JOIN trigger_state AS state ON state.id = run.trigger_ref
LEFT JOIN record ON record.id = run.record_id
WHERE (state.tenant_id, state.table_id, state.trigger_id, state.kind)
        <> (run.tenant_id, run.table_id, run.trigger_id, run.kind)
    OR record.table_id <> run.table_id
ORDER BY run.id
LIMIT %(limit)s
"""

_VALUE_OF_ANOTHER_TABLE = """
SELECT format('record %%s of trigger %%s', entry.record_id, state.trigger_id)
FROM (
    SELECT trigger_ref, record_id, NULL::uuid AS tenant_id
    FROM occurrence
    UNION ALL
    SELECT trigger_ref, record_id, tenant_id
    FROM due_value
    UNION ALL
    SELECT trigger_ref, record_id, tenant_id
    FROM fresh_value
    UNION ALL
    SELECT trigger_ref, record_id, tenant_id
    FROM held_value
    UNION ALL
    SELECT trigger_ref, NULL, tenant_id
    FROM backlog
) AS entry
JOIN trigger_state AS state ON state.id = entry.trigger_ref
LEFT JOIN record ON record.id = entry.record_id
WHERE record.table_id <> state.table_id OR entry.tenant_id <> state.tenant_id
ORDER BY entry.trigger_ref, entry.record_id
LIMIT %(limit)s
"""

_FROZEN_WRONG = """
SELECT 'run ' || run.id
FROM trigger_run AS run
JOIN definition
    ON definition.tenant_id = run.tenant_id AND definition.hash = run.definition_hash
WHERE definition.body -> 'trigger' ->> 'id' <> run.trigger_id
    OR CASE
        WHEN run.kind IN ('interval', 'daily', 'cron')
            THEN run.record_id IS NOT NULL OR run.snapshot IS NOT NULL
        ELSE run.record_id IS NULL OR run.snapshot IS NULL
    END
ORDER BY run.id
LIMIT %(limit)s
"""

_APART = "no row refers to one of another tenant or table"

RUN_INVARIANTS = (
    Invariant(
        number="I11",
        promise="a run that is done has an ok receipt for every action",
        statement=_DONE_WITHOUT_RECEIPTS,
    ),
    Invariant(number="I16", promise=_APART, statement=_RUN_OF_ANOTHER_TABLE),
    Invariant(number="I16", promise=_APART, statement=_VALUE_OF_ANOTHER_TABLE),
    Invariant(
        number="I17",
        promise="a run carries the definition of its trigger, and its row if it has one",
        statement=_FROZEN_WRONG,
    ),
)
