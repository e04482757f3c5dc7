"""What must hold of runs and scheduled actions alike, since both go through one life cycle."""

from collections.abc import Iterator

from shared.domain.invariants import Invariant
from shared.domain.work import MAX_WORKER_LOSSES, WorkKind
from shared.queries.life_cycle import HELD, for_both

_LEASE_FORGOTTEN = for_both("""
SELECT format('{table} %%s, held by worker %%s', id, worker_id)
FROM {table}
WHERE status = '{held}' AND leased_until < %(settled_before)s
ORDER BY id
LIMIT %(limit)s
""")

_PENDING_FORGOTTEN = for_both("""
SELECT '{table} ' || id
FROM {table}
WHERE status = 'pending' AND announce_at < %(settled_before)s
ORDER BY announce_at, id
LIMIT %(limit)s
""")

_BEGUN_AGAIN = for_both("""
SELECT format('{table} %%s, action %%s', id, open_action + 1)
FROM {table}
WHERE action_results -> open_action::int -> 'ok' = 'true'
ORDER BY id
LIMIT %(limit)s
""")

# The receipt of an action with a delay tells of what it recorded, not of an effect.
_RECEIPT_WITHOUT_MESSAGE = for_both("""
SELECT format('{table} %%s, message %%s', work.id, receipt ->> 'message_id')
FROM {table} AS work
CROSS JOIN LATERAL jsonb_array_elements(work.action_results) AS receipt
WHERE receipt ->> 'type' = 'notify'
    AND receipt -> 'ok' = 'true'
    AND NOT receipt ? 'scheduled_action_id'
    AND NOT EXISTS (
        SELECT
        FROM chat_message AS message
        WHERE message.id = (receipt ->> 'message_id')::bigint
            AND message.tenant_id = work.tenant_id
    )
ORDER BY work.id
LIMIT %(limit)s
""")

_RECEIPT_WITHOUT_RECORD = for_both("""
SELECT format('{table} %%s, record %%s', work.id, receipt ->> 'record_id')
FROM {table} AS work
CROSS JOIN LATERAL jsonb_array_elements(work.action_results) AS receipt
WHERE receipt ->> 'type' IN ('create_record', 'update_record', 'delete_record')
    AND receipt -> 'ok' = 'true'
    AND NOT receipt ? 'scheduled_action_id'
    AND NOT receipt ? 'staged_change_id'
    AND NOT EXISTS (
        SELECT
        FROM record
        WHERE record.id = (receipt ->> 'record_id')::bigint
            AND record.tenant_id = work.tenant_id
    )
ORDER BY work.id
LIMIT %(limit)s
""")

_BUDGET_OVERDRAWN = for_both("""
SELECT format('{table} %%s, attempts %%s, worker losses %%s', id, attempts, worker_losses)
FROM {table}
WHERE attempts > least(starts, %(executions)s)
    OR worker_losses > %(losses)s
    OR (worker_losses = %(losses)s AND status <> 'failed')
ORDER BY id
LIMIT %(limit)s
""")

_WAY_FORWARD = "what is not ended has a way forward, and takes it in time"
_NOT_AGAIN = "an action with an ok receipt is not begun again"
_EFFECT_ONCE = "an internal effect and its receipt are one"
_BUDGETS = "executions and worker losses stay within their budgets"


def _of(kind: WorkKind) -> Iterator[Invariant]:
    losses = {"losses": MAX_WORKER_LOSSES}
    yield Invariant(number="I8", promise=_WAY_FORWARD, statement=_LEASE_FORGOTTEN[kind])
    yield Invariant(number="I8", promise=_WAY_FORWARD, statement=_PENDING_FORGOTTEN[kind])
    yield Invariant(number="I9", promise=_NOT_AGAIN, statement=_BEGUN_AGAIN[kind])
    yield Invariant(number="I10", promise=_EFFECT_ONCE, statement=_RECEIPT_WITHOUT_MESSAGE[kind])
    yield Invariant(number="I10", promise=_EFFECT_ONCE, statement=_RECEIPT_WITHOUT_RECORD[kind])
    yield Invariant(
        number="I13", promise=_BUDGETS, statement=_BUDGET_OVERDRAWN[kind], parameters=losses
    )


WORK_INVARIANTS = tuple(invariant for kind in HELD for invariant in _of(kind))
