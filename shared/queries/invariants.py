"""What must hold in the database at any moment, asked: whatever contradicts it is a row.

The numbers are those of docs/architecture.md. Not asked is what a single moment cannot show: how a
row came to its state (I6, I7), and whether a cell is due, which the evaluator tells (preview).
"""

from datetime import datetime

from psycopg import Connection

from shared.domain.invariants import Invariant, Violation
from shared.domain.work import MAX_RETRIES
from shared.queries.action_invariants import ACTION_INVARIANTS
from shared.queries.change_invariants import CHANGE_INVARIANTS
from shared.queries.run_invariants import RUN_INVARIANTS
from shared.queries.schedule_invariants import SCHEDULE_INVARIANTS
from shared.queries.table_invariants import TABLE_INVARIANTS
from shared.queries.work_invariants import WORK_INVARIANTS

# What a constraint forbids cannot be found in the rows: ask whether it is in force, by its table.
_MISSING_CONSTRAINT = """
SELECT 'constraint ' || wanted.name || ' is not in force'
FROM unnest(%(constraints)s::text[]) AS wanted (name)
WHERE NOT EXISTS (
        SELECT
        FROM pg_constraint
        WHERE conrelid = to_regclass(split_part(wanted.name, '.', 1))
            AND conname = split_part(wanted.name, '.', 2)
            AND convalidated
    )
    AND NOT EXISTS (
        SELECT
        FROM pg_index
        JOIN pg_class ON pg_class.oid = pg_index.indexrelid
        WHERE pg_index.indrelid = to_regclass(split_part(wanted.name, '.', 1))
            AND pg_class.relname = split_part(wanted.name, '.', 2)
            AND pg_index.indisunique
            AND pg_index.indisvalid
    )
ORDER BY wanted.name
LIMIT %(limit)s
"""


def _in_force(number: str, promise: str, *constraints: str) -> Invariant:
    return Invariant(
        number=number,
        promise=promise,
        statement=_MISSING_CONSTRAINT,
        parameters={"constraints": list(constraints)},
    )


_CONSTRAINTS_IN_FORCE = (
    _in_force("I1", "an identity is consumed once", "occurrence.an_identity_is_consumed_once"),
    _in_force(
        "I5", "a clock trigger has one active run", "trigger_run.one_active_run_per_clock_trigger"
    ),
    _in_force(
        "I8",
        "every row has a way forward",
        "trigger_run.pending_can_be_found",
        "trigger_run.running_is_held",
        "scheduled_action.pending_can_be_found",
        "scheduled_action.processing_is_held",
        "staged_change.approved_can_be_found",
    ),
    _in_force(
        "I10",
        "an internal effect happens once",
        "chat_message.a_message_is_stored_once",
        "record.a_record_is_made_once",
        "event.an_event_is_taken_once",
        "scheduled_action.an_action_is_recorded_once",
        "scheduled_action.one_step_per_node",
        "workflow_execution.an_execution_is_started_once",
        "staged_change.a_change_is_staged_once",
    ),
    _in_force(
        "I12",
        "failed and cancelled carry a reason",
        "trigger_run.failed_has_a_reason",
        "trigger_run.terminal_is_finished",
        "scheduled_action.an_end_has_a_reason",
        "scheduled_action.terminal_is_finished",
        "staged_change.failed_has_a_reason",
        "staged_change.terminal_is_finished",
    ),
    _in_force(
        "I14",
        "a wait has a deadline, and nothing else a branch",
        "scheduled_action.a_wait_has_an_end",
        "scheduled_action.only_a_wait_branches",
    ),
    _in_force(
        "I16",
        "no row refers to one of another tenant",
        "record.record_tenant_id_table_id_fkey",
        "trigger_state.trigger_state_tenant_id_table_id_fkey",
        "trigger_run.trigger_run_tenant_id_table_id_fkey",
        "trigger_run.trigger_run_tenant_id_definition_hash_fkey",
        "scheduled_action.scheduled_action_tenant_id_definition_hash_fkey",
        "scheduled_action.scheduled_action_tenant_id_execution_id_fkey",
        "scheduled_action.scheduled_action_tenant_id_workflow_id_fkey",
        "scheduled_action.scheduled_action_tenant_id_line_user_id_fkey",
        "scheduled_action.scheduled_action_tenant_id_table_id_fkey",
        "scheduled_action.scheduled_action_tenant_id_tracking_link_id_fkey",
        "event.event_tenant_id_line_user_id_fkey",
        "scp_rule.scp_rule_tenant_id_table_id_fkey",
        "staged_change.staged_change_tenant_id_table_id_fkey",
        "staged_change.staged_change_tenant_id_reviewed_by_fkey",
        "tracking_link.tracking_link_tenant_id_execution_id_fkey",
        "tracking_link.tracking_link_tenant_id_line_user_id_fkey",
        "workflow_execution.workflow_execution_tenant_id_line_user_id_fkey",
        "workflow_execution.workflow_execution_tenant_id_workflow_id_fkey",
        "workflow_version.workflow_version_tenant_id_workflow_id_fkey",
    ),
)

INVARIANTS = (
    *_CONSTRAINTS_IN_FORCE,
    *SCHEDULE_INVARIANTS,
    *WORK_INVARIANTS,
    *RUN_INVARIANTS,
    *ACTION_INVARIANTS,
    *CHANGE_INVARIANTS,
    *TABLE_INVARIANTS,
)


def list_violations(
    conn: Connection, *, settled_before: datetime, limit: int, max_retries: int = MAX_RETRIES
) -> list[Violation]:
    """Return up to ``limit`` violations for each statement.

    What has to happen in the end (I3, I8) counts as forgotten when it was due before
    ``settled_before``; an execution is one too many after ``max_retries`` and the first. Reads
    whole tables: give the session time, minutes for millions of rows.
    """
    asked = {"settled_before": settled_before, "limit": limit, "executions": 1 + max_retries}
    return [
        Violation(invariant=invariant.number, promise=invariant.promise, found=found)
        for invariant in INVARIANTS
        for (found,) in conn.execute(
            invariant.statement,
            {**invariant.parameters, **asked},
        )
    ]
