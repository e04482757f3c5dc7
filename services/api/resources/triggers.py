"""The triggers of a table: read, set as a whole, and what the next tick would do."""

from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from shared.domain.records import CustomTable
from shared.usecases.preview import preview
from shared.usecases.set_triggers import MAX_TRIGGERS, set_triggers

_TRIGGERS = "/tables/<uuid:table_id>/triggers"


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
    table = set_triggers(
        call.conn,
        table_of(call).id,
        call.body["triggers"],
        now=call.now,
        channel_id=call.caller.channel_id,
        expected_revision=call.revision,
    )
    return _answer(table)


def _preview(call: Call) -> Answer:
    table = table_of(call)
    return Answer(
        body=preview(call.conn, table, record_limit=call.query["record_limit"], now=call.now)
    )


def _answer(table: CustomTable) -> Answer:
    body = {
        "table_id": table.id,
        "triggers": table.triggers or [],
        "revision": table.revision,
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
        summary="Replace the triggers of a table as a whole",
        roles=MODERATOR,
        body=NewTriggersSchema,
        answers={200: TriggersSchema},
        handler=_set,
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
