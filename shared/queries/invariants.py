"""What must hold in the database at any moment, asked: whatever contradicts it is a row.

The numbers are those of docs/architecture.md. Not asked is what a single moment cannot show: how a
row came to its state (I6, I7), and whether a cell is due, which the evaluator tells (preview).
"""

from datetime import datetime

from psycopg import Connection

from shared.domain.invariants import Invariant, Violation
from shared.queries.run_invariants import RUN_INVARIANTS
from shared.queries.schedule_invariants import SCHEDULE_INVARIANTS

# What a constraint forbids cannot be found in the rows: ask whether it is in force.
_MISSING_CONSTRAINT = """
SELECT 'constraint ' || wanted.name || ' is not in force'
FROM unnest(%(constraints)s::text[]) AS wanted (name)
WHERE NOT EXISTS (
        SELECT
        FROM pg_constraint
        WHERE conname = wanted.name
            AND convalidated
            AND connamespace = current_schema()::regnamespace
    )
    AND NOT EXISTS (
        SELECT
        FROM pg_index
        JOIN pg_class ON pg_class.oid = pg_index.indexrelid
        WHERE pg_class.relname = wanted.name
            AND pg_class.relnamespace = current_schema()::regnamespace
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
    _in_force("I1", "an identity is consumed once", "an_identity_is_consumed_once"),
    _in_force("I5", "a clock trigger has one active run", "one_active_run_per_clock_trigger"),
    _in_force("I8", "every row has a way forward", "pending_can_be_found", "running_is_held"),
    _in_force(
        "I10",
        "an internal effect happens once",
        "a_message_is_stored_once",
        "a_record_is_made_once",
    ),
    _in_force("I12", "failed carries a reason", "failed_has_a_reason", "terminal_is_finished"),
    _in_force(
        "I16",
        "no row refers to one of another tenant",
        "record_tenant_id_table_id_fkey",
        "trigger_state_tenant_id_table_id_fkey",
        "trigger_run_tenant_id_table_id_fkey",
        "trigger_run_tenant_id_definition_hash_fkey",
    ),
)

INVARIANTS = (*_CONSTRAINTS_IN_FORCE, *SCHEDULE_INVARIANTS, *RUN_INVARIANTS)


def list_violations(conn: Connection, *, settled_before: datetime, limit: int) -> list[Violation]:
    """Return up to ``limit`` violations for each statement.

    What has to happen in the end (I3, I8) counts as forgotten when it was due before
    ``settled_before``. Reads whole tables: give the session time, minutes for millions of rows.
    """
    return [
        Violation(invariant=invariant.number, promise=invariant.promise, found=found)
        for invariant in INVARIANTS
        for (found,) in conn.execute(
            invariant.statement,
            {**invariant.parameters, "settled_before": settled_before, "limit": limit},
        )
    ]
