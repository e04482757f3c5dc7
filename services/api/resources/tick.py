"""The operator's tick: one pass over the tables that were scanned longest ago."""

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.routes import Answer, Call, Route
from shared.usecases.tick import tick


class TickQuery(StrictSchema):
    """How much one tick looks at."""

    table_limit = fields.QueryInteger(min=1, max=2000, load_default=200)
    record_limit = fields.QueryInteger(min=1, max=10_000, load_default=1000)


class TickSchema(StrictSchema):
    """What the tick did."""

    tables_scanned = fields.Integer(required=True)
    tables_with_schedules = fields.Integer(required=True)
    runs_created = fields.Integer(required=True)
    trigger_runs_requeued = fields.Integer(required=True)
    staged_changes_requeued = fields.Integer(required=True)


def _run_due_triggers(call: Call) -> Answer:
    result = tick(
        call.conn,
        table_limit=call.query["table_limit"],
        record_limit=call.query["record_limit"],
        now=call.now,
    )
    return Answer(body=result)


RUN_DUE_TRIGGERS = Route(
    method="POST",
    path="/run-due-triggers",
    operation_id="runDueTriggers",
    summary="Create the runs that are due now; beside the scanner, or instead of it",
    roles=MODERATOR,
    query=TickQuery,
    answers={200: TickSchema},
    handler=_run_due_triggers,
    own_transactions=True,
    across_tenants=True,
)
