"""What must hold of schedules, the ledger and the births of runs: I1 to I4, I15."""

from shared.domain.invariants import Invariant

_EVENT_WITH_TWO_RUNS = """
SELECT format(
    'runs %%s of trigger %%s, record %%s, %%s',
    string_agg(id::text, ', ' ORDER BY id), trigger_id, record_id, identity
)
FROM trigger_run
WHERE trigger_ref IS NULL
GROUP BY table_id, trigger_id, record_id, identity
HAVING count(*) > 1
ORDER BY min(id)
LIMIT %(limit)s
"""

_RUN_WITHOUT_LEDGER_ROW = """
SELECT 'run ' || run.id
FROM trigger_run AS run
WHERE run.trigger_ref IS NOT NULL
    AND NOT EXISTS (
        SELECT
        FROM occurrence
        WHERE occurrence.trigger_ref = run.trigger_ref
            AND occurrence.record_id = coalesce(run.record_id, 0)
            AND occurrence.identity = run.identity
            AND occurrence.by_run
            AND occurrence.consumed_at = run.created_at
    )
ORDER BY run.id
LIMIT %(limit)s
"""

_LEDGER_ROW_WITH_TWO_RUNS = """
SELECT format('runs %%s of identity %%s', string_agg(id::text, ', ' ORDER BY id), identity)
FROM trigger_run
WHERE trigger_ref IS NOT NULL
GROUP BY trigger_ref, record_id, identity
HAVING count(*) > 1
ORDER BY min(id)
LIMIT %(limit)s
"""

_LEDGER_ROWS_OF_NO_TRIGGER = """
SELECT format('%%s ledger rows of trigger state %%s, which is not there', count(*), trigger_ref)
FROM occurrence
WHERE NOT EXISTS (SELECT FROM trigger_state WHERE trigger_state.id = occurrence.trigger_ref)
GROUP BY trigger_ref
ORDER BY trigger_ref
LIMIT %(limit)s
"""

# What was written or saved a moment ago may have been due long before.
_WINDOW_PASSED_BY = """
SELECT format('trigger %%s of table %%s', state.trigger_id, state.table_id)
FROM trigger_state AS state
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE state.retired_at IS NULL
    AND state.next_due_at < %(settled_before)s
    AND owner.updated_at < %(settled_before)s
    AND owner.trashed_at IS NULL
    AND EXISTS (
        SELECT
        FROM jsonb_array_elements(owner.triggers) AS stored
        WHERE stored ->> 'id' = state.trigger_id
            AND coalesce(stored ->> 'enabled', 'true') = 'true'
    )
    AND NOT EXISTS (
        SELECT
        FROM trigger_run AS run
        WHERE run.trigger_ref = state.id AND run.status IN ('pending', 'running')
    )
ORDER BY state.id
LIMIT %(limit)s
"""

_DUE_VALUE_PASSED_BY = """
SELECT format(
    'record %%s of trigger %%s of table %%s', due_value.record_id, state.trigger_id, state.table_id
)
FROM due_value
JOIN trigger_state AS state ON state.id = due_value.trigger_ref
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE due_value.fire_at < %(settled_before)s
    AND owner.updated_at < %(settled_before)s
    AND NOT EXISTS (
        SELECT
        FROM record
        WHERE record.id = due_value.record_id AND record.updated_at >= %(settled_before)s
    )
    AND state.retired_at IS NULL
    AND owner.trashed_at IS NULL
    AND EXISTS (
        SELECT
        FROM jsonb_array_elements(owner.triggers) AS stored
        WHERE stored ->> 'id' = state.trigger_id
            AND coalesce(stored ->> 'enabled', 'true') = 'true'
    )
ORDER BY due_value.fire_at, due_value.trigger_ref, due_value.record_id
LIMIT %(limit)s
"""

_DRIP_PASSED_BY = """
SELECT format('trigger %%s of table %%s', state.trigger_id, state.table_id)
FROM backlog
JOIN trigger_state AS state ON state.id = backlog.trigger_ref
JOIN custom_table AS owner ON owner.id = state.table_id
WHERE backlog.look_at < %(settled_before)s
    AND owner.trashed_at IS NULL
    AND EXISTS (
        SELECT
        FROM jsonb_array_elements(owner.triggers) AS stored
        WHERE stored ->> 'id' = state.trigger_id
            AND coalesce(stored ->> 'enabled', 'true') = 'true'
    )
ORDER BY state.id
LIMIT %(limit)s
"""

_RUN_BEFORE_ITS_TIME = """
SELECT 'run ' || id
FROM trigger_run
WHERE scheduled_for > created_at
ORDER BY id
LIMIT %(limit)s
"""

# An offset may have been edited since, so that of a date only its limit can be asked.
_CONSUMED_BEFORE_ITS_TIME = """
SELECT format(
    'identity %%s of trigger %%s of table %%s', entry.identity, state.trigger_id, state.table_id
)
FROM occurrence AS entry
JOIN trigger_state AS state ON state.id = entry.trigger_ref
WHERE CASE
        WHEN state.kind <> 'date_column_reached' THEN entry.identity::timestamptz
        ELSE (entry.identity || ' UTC')::timestamptz - interval '30 days'
    END > entry.consumed_at
ORDER BY entry.trigger_ref, entry.record_id, entry.identity
LIMIT %(limit)s
"""

_LAST_WINDOW_ASTRAY = """
SELECT format('trigger %%s of table %%s', state.trigger_id, state.table_id)
FROM trigger_state AS state
WHERE state.last_window_at < state.anchor_at
    OR (
        state.last_window_at IS NOT NULL
        AND NOT EXISTS (
            SELECT
            FROM occurrence
            WHERE occurrence.trigger_ref = state.id
                AND occurrence.record_id = 0
                AND occurrence.identity
                    = to_char(state.last_window_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        )
    )
ORDER BY state.id
LIMIT %(limit)s
"""

_ONCE = "an identity is consumed once"
_LEDGER = "a scheduled run has one ledger row, born with it, and a ledger row at most one run"
_OF_TRIGGERS = "a ledger row is of a trigger that is known"
_NOTHING_LOST = "what is due is consumed"
_NOTHING_EARLY = "nothing is consumed before it is due"

SCHEDULE_INVARIANTS = (
    Invariant(number="I1", promise=_ONCE, statement=_EVENT_WITH_TWO_RUNS),
    Invariant(number="I2", promise=_LEDGER, statement=_RUN_WITHOUT_LEDGER_ROW),
    Invariant(number="I2", promise=_LEDGER, statement=_LEDGER_ROW_WITH_TWO_RUNS),
    Invariant(number="I2", promise=_OF_TRIGGERS, statement=_LEDGER_ROWS_OF_NO_TRIGGER),
    Invariant(number="I3", promise=_NOTHING_LOST, statement=_WINDOW_PASSED_BY),
    Invariant(number="I3", promise=_NOTHING_LOST, statement=_DUE_VALUE_PASSED_BY),
    Invariant(number="I3", promise=_NOTHING_LOST, statement=_DRIP_PASSED_BY),
    Invariant(number="I4", promise=_NOTHING_EARLY, statement=_RUN_BEFORE_ITS_TIME),
    Invariant(number="I4", promise=_NOTHING_EARLY, statement=_CONSUMED_BEFORE_ITS_TIME),
    Invariant(
        number="I15",
        promise="the last window of a trigger is behind its anchor and in the ledger",
        statement=_LAST_WINDOW_ASTRAY,
    ),
)
