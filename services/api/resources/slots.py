"""What the triggers of a table that make slots would do now."""

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from shared.usecases.slots_preview import preview_slots


class SlotActionSchema(StrictSchema):
    """An action: the counts of a run that began now, null where it would fail by ``error``.

    ``truncated``: there is too much to look at; the counts are of the first days, or null.
    """

    trigger_id = fields.Text(max=16, required=True)
    pointer = fields.Text(max=200, required=True)
    created = fields.Integer(required=True, allow_none=True)
    kept = fields.Integer(required=True, allow_none=True)
    pruned = fields.Integer(required=True, allow_none=True)
    invalid = fields.Integer(required=True, allow_none=True)
    error = fields.Text(max=1000, required=True, allow_none=True)
    truncated = fields.Boolean(required=True)


class SlotsPreviewSchema(StrictSchema):
    """What would be made; counts only, no record and no cell."""

    table_id = fields.Uuid(required=True)
    evaluated_at = fields.Second(required=True)
    actions = fields.Items(fields.Nested(SlotActionSchema), required=True)


def _preview(call: Call) -> Answer:
    table = table_of(call)
    actions = preview_slots(call.conn, table, now=call.now)
    return Answer(body={"table_id": table.id, "evaluated_at": call.now, "actions": actions})


SLOTS_PREVIEW = Route(
    method="GET",
    path="/tables/<uuid:table_id>/triggers/slots-preview",
    operation_id="triggers.slotsPreview",
    summary="See what the materialize_slots actions of a table would do now",
    roles=MODERATOR,
    answers={200: SlotsPreviewSchema},
    handler=_preview,
)
