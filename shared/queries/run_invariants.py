"""What must hold of runs and their effects: I8 to I13, I16, I17."""

from shared.domain.invariants import Invariant
from shared.domain.work import MAX_WORKER_LOSSES

_LEASE_FORGOTTEN = """
SELECT format('run %%s, held by worker %%s', id, worker_id)
FROM trigger_run
WHERE status = 'running' AND leased_until < %(settled_before)s
ORDER BY id
LIMIT %(limit)s
"""

_PENDING_FORGOTTEN = """
SELECT 'run ' || id
FROM trigger_run
WHERE status = 'pending' AND announce_at < %(settled_before)s
ORDER BY announce_at, id
LIMIT %(limit)s
"""

_BEGUN_AGAIN = """
SELECT format('run %%s, action %%s', id, open_action + 1)
FROM trigger_run
WHERE action_results -> open_action::int -> 'ok' = 'true'
ORDER BY id
LIMIT %(limit)s
"""

# The receipt of an action with a delay tells of what it recorded, not of an effect.
_RECEIPT_WITHOUT_MESSAGE = """
SELECT format('run %%s, message %%s', run.id, receipt ->> 'message_id')
FROM trigger_run AS run
CROSS JOIN LATERAL jsonb_array_elements(run.action_results) AS receipt
WHERE receipt ->> 'type' = 'notify'
    AND receipt -> 'ok' = 'true'
    AND NOT receipt ? 'scheduled_action_id'
    AND NOT EXISTS (
        SELECT
        FROM chat_message AS message
        WHERE message.id = (receipt ->> 'message_id')::bigint
            AND message.tenant_id = run.tenant_id
    )
ORDER BY run.id
LIMIT %(limit)s
"""

_RECEIPT_WITHOUT_RECORD = """
SELECT format('run %%s, record %%s', run.id, receipt ->> 'record_id')
FROM trigger_run AS run
CROSS JOIN LATERAL jsonb_array_elements(run.action_results) AS receipt
WHERE receipt ->> 'type' IN ('create_record', 'update_record', 'delete_record')
    AND receipt -> 'ok' = 'true'
    AND NOT receipt ? 'scheduled_action_id'
    AND NOT EXISTS (
        SELECT
        FROM record
        WHERE record.id = (receipt ->> 'record_id')::bigint
            AND record.tenant_id = run.tenant_id
    )
ORDER BY run.id
LIMIT %(limit)s
"""

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

_BUDGET_OVERDRAWN = """
SELECT format('run %%s, attempts %%s, worker losses %%s', id, attempts, worker_losses)
FROM trigger_run
WHERE attempts > least(starts, %(executions)s)
    OR worker_losses > %(losses)s
    OR (worker_losses = %(losses)s AND status <> 'failed')
ORDER BY id
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

_WAY_FORWARD = "what is not ended has a way forward, and takes it in time"
_EFFECT_ONCE = "an internal effect and its receipt are one"
_APART = "no row refers to one of another tenant or table"

RUN_INVARIANTS = (
    Invariant(number="I8", promise=_WAY_FORWARD, statement=_LEASE_FORGOTTEN),
    Invariant(number="I8", promise=_WAY_FORWARD, statement=_PENDING_FORGOTTEN),
    Invariant(
        number="I9",
        promise="an action with an ok receipt is not begun again",
        statement=_BEGUN_AGAIN,
    ),
    Invariant(number="I10", promise=_EFFECT_ONCE, statement=_RECEIPT_WITHOUT_MESSAGE),
    Invariant(number="I10", promise=_EFFECT_ONCE, statement=_RECEIPT_WITHOUT_RECORD),
    Invariant(
        number="I11",
        promise="a run that is done has an ok receipt for every action",
        statement=_DONE_WITHOUT_RECEIPTS,
    ),
    Invariant(
        number="I13",
        promise="executions and worker losses stay within their budgets",
        statement=_BUDGET_OVERDRAWN,
        parameters={"losses": MAX_WORKER_LOSSES},
    ),
    Invariant(number="I16", promise=_APART, statement=_RUN_OF_ANOTHER_TABLE),
    Invariant(number="I16", promise=_APART, statement=_VALUE_OF_ANOTHER_TABLE),
    Invariant(
        number="I17",
        promise="a run carries the definition of its trigger, and its row if it has one",
        statement=_FROZEN_WRONG,
    ),
)
