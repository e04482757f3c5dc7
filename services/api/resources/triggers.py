"""The triggers of a table: read, set as a whole, and what the next tick would do."""

from contextlib import nullcontext
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from shared.domain.on_existing import MAX_PER_MINUTE, MODES, OnExisting, read_on_existing
from shared.domain.records import CustomTable
from shared.domain.triggers import ScheduleKind
from shared.usecases.dry_run import dry_run
from shared.usecases.preview import is_long, preview
from shared.usecases.set_triggers import MAX_TRIGGERS, set_triggers

_TRIGGERS = "/tables/<uuid:table_id>/triggers"

_SCHEDULE_KINDS: tuple[ScheduleKind, ...] = get_args(ScheduleKind)


def _list_of(component: str) -> dict[str, Any]:
    return {
        "type": "array",
        "maxItems": MAX_TRIGGERS,
        "items": {"$ref": f"#/components/schemas/{component}"},
    }


class TriggersSchema(StrictSchema):
    """The triggers of a table in stored form; null when none were ever set."""

    table_id = fields.Uuid(required=True)
    triggers = fields.Json(required=True, metadata=_list_of("Trigger"))
    revision = fields.Integer(required=True)


class ConsequenceSchema(StrictSchema):
    """What a trigger on schedule would do, over the whole table; counts and instants alone."""

    trigger_id = fields.Text(max=16, required=True, allow_none=True)
    kind = fields.Choice(*_SCHEDULE_KINDS, required=True)
    fires_next_tick = fields.Integer(
        required=True, metadata={"description": "what fires as soon as the scheduler looks"}
    )
    oldest_due_at = fields.Instant(
        required=True,
        allow_none=True,
        metadata={"description": "since when the oldest of these has been due"},
    )
    fires_within_24_hours = fields.Integer(
        required=True, metadata={"description": "what fires after that, within 24 hours"}
    )
    consumed = fields.Integer(
        required=True, metadata={"description": "overdue values that will never fire"}
    )
    held_back = fields.Integer(
        required=True, metadata={"description": "overdue values that will wait in the drip"}
    )
    truncated = fields.Boolean(
        required=True, metadata={"description": "time was over: the counts are lower bounds"}
    )
    first_windows = fields.Items(
        fields.Instant(), required=True, metadata={"description": "of a clock schedule"}
    )


class SavedTriggersSchema(TriggersSchema):
    """The triggers as stored; of a dry run as they would be, new ones without an id.

    ``consequences`` are told by a dry run alone, one for each trigger on schedule.
    """

    triggers = fields.Json(required=True, metadata=_list_of("NewTrigger"))
    consequences = fields.Items(fields.Nested(ConsequenceSchema))


class OnExistingQuery(StrictSchema):
    """What becomes of values that are overdue already, of the date triggers that the save concerns.

    Those are new, or come back, or get another column or offset.
    """

    on_existing = fields.Choice(
        *MODES,
        load_default="fire",
        metadata={"description": "fire them, consume them without a run, or let them drip"},
    )
    per_minute = fields.QueryInteger(
        min=1,
        max=MAX_PER_MINUTE,
        load_default=None,
        metadata={"description": "of a drip: so many fire a minute"},
    )


class SetTriggersQuery(OnExistingQuery):
    """How the list is saved, if it is."""

    dry_run = fields.QueryBoolean(
        load_default=False, metadata={"description": "store nothing, tell the consequences"}
    )


class NewTriggersSchema(StrictSchema):
    """The whole list: what is not in it is retired, an entry without an id is new."""

    triggers = fields.Json(required=True, metadata=_list_of("NewTrigger"))


class PreviewQuery(StrictSchema):
    """How many records of a date trigger are looked at: the page of a tick."""

    record_limit = fields.QueryInteger(min=1, max=10_000, load_default=1000)


class PreviewSchema(StrictSchema):
    """What the next tick would do; counts and codes, no record and no cell."""

    table_id = fields.Uuid(required=True)
    evaluated_at = fields.Second(required=True)
    live_records = fields.Integer(required=True)
    record_limit = fields.Integer(required=True)
    triggers = fields.Json(
        required=True,
        metadata={"type": "array", "items": {"$ref": "#/components/schemas/PreviewArm"}},
    )


def _get(call: Call) -> Answer:
    return _answer(table_of(call))


def _set(call: Call) -> Answer:
    on_existing = read_on_existing(call.query["on_existing"], call.query["per_minute"])
    save = _dry_run if call.query["dry_run"] else _save
    return save(call, on_existing)


def _save(call: Call, on_existing: OnExisting) -> Answer:
    table = set_triggers(
        call.conn,
        table_of(call).id,
        call.body["triggers"],
        now=call.now,
        channel_id=call.caller.channel_id,
        expected_revision=call.revision,
        on_existing=on_existing,
    )
    return _answer(table)


def _dry_run(call: Call, on_existing: OnExisting) -> Answer:
    table = table_of(call)
    with call.questions.turn(table.tenant_id):
        told = dry_run(
            call.conn,
            table.id,
            call.body["triggers"],
            now=call.now,
            channel_id=call.caller.channel_id,
            expected_revision=call.revision,
            on_existing=on_existing,
        )
    return _answer(told.table, consequences=told.consequences)


def _preview(call: Call) -> Answer:
    table, record_limit = table_of(call), call.query["record_limit"]
    waits = is_long(table, record_limit=record_limit)
    with call.questions.turn(table.tenant_id) if waits else nullcontext():
        body = preview(call.conn, table, record_limit=record_limit, now=call.now)
    return Answer(body=body)


def _answer(table: CustomTable, **more: object) -> Answer:
    body = {
        "table_id": table.id,
        "triggers": table.triggers or [],
        "revision": table.revision,
        **more,
    }
    return Answer(body=body, revision=table.revision)


TRIGGER_ROUTES = (
    Route(
        method="GET",
        path=_TRIGGERS,
        operation_id="triggers.get",
        summary="Read the triggers of a table, in stored form",
        roles=MODERATOR,
        answers={200: TriggersSchema},
        handler=_get,
    ),
    Route(
        method="PUT",
        path=_TRIGGERS,
        operation_id="triggers.set",
        summary="Replace the triggers of a table as a whole, or tell what that would lead to",
        roles=MODERATOR,
        query=SetTriggersQuery,
        body=NewTriggersSchema,
        answers={200: SavedTriggersSchema},
        handler=_set,
        own_transactions=True,
        versioned=True,
        conflicts=True,
    ),
    Route(
        method="GET",
        path=_TRIGGERS + "/schedule-preview",
        operation_id="triggers.schedulePreview",
        summary="See what the next tick would do, by the scheduler's own evaluator",
        roles=MODERATOR,
        query=PreviewQuery,
        answers={200: PreviewSchema},
        handler=_preview,
        own_transactions=True,
    ),
)
