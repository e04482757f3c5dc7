"""Events: sent once, they make the rules of their name schedule actions."""

from functools import partial
from typing import Any

from services.api import fields
from services.api.auth import INTERNAL_CALLERS
from services.api.fields import StrictSchema
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantQuery
from shared.domain.event_rules import MAX_EVENT_NAME
from shared.queries.events import TakenEvent
from shared.queries.trigger_rules import count_rules
from shared.usecases.take_event import NewEvent, settle, take_event

_MAX_KEY = 255


class NewEventSchema(StrictSchema):
    """What happened, to which contact; sent again under its key it has no further effect."""

    name = fields.Text(
        min=1,
        max=MAX_EVENT_NAME,
        required=True,
        metadata={"description": "rules name it exactly", "examples": ["order.paid"]},
    )
    line_user_id = fields.Integer(
        min=1,
        allow_none=True,
        load_default=None,
        metadata={"description": "the contact that the actions are about"},
    )
    data = fields.Members(
        load_default=dict,
        metadata={
            "description": "conditions read it as event.<key>, settings of actions as $event.<key>",
            "examples": [{"order": 1027, "sum": 1980, "items": ["tea"]}],
        },
    )
    idempotency_key = fields.Text(
        min=1,
        max=_MAX_KEY,
        allow_none=True,
        load_default=None,
        metadata={
            "description": "unique in the tenant for as long as the event is kept",
            "examples": ["order-1027-paid"],
        },
    )


class EventSchema(StrictSchema):
    """An event that was taken: which rules matched, and what they scheduled."""

    id = fields.Integer(required=True)
    name = fields.Text(max=MAX_EVENT_NAME, required=True)
    rule_ids = fields.Items(
        fields.Integer(), required=True, metadata={"description": "the rules that matched"}
    )
    scheduled_action_ids = fields.Items(
        fields.Integer(),
        required=True,
        metadata={"description": "one for each action of these rules"},
    )
    rules_of_name = fields.Integer(
        required=True,
        metadata={
            "description": "rules for events of this name, switched off ones too;"
            " 0: nothing can match, the name may be misspelt"
        },
    )
    created_at = fields.Instant(required=True)


def _take(call: Call) -> Answer:
    event = NewEvent(
        tenant_id=call.tenant_id,
        name=call.body["name"],
        line_user_id=call.body["line_user_id"],
        data=call.body["data"],
        key=call.body["idempotency_key"],
    )
    taken = take_event(call.conn, event, clicks=call.clicks, waiting=call.waiting, now=call.now)
    call.after_commit.append(partial(settle, call.conn, event, taken, clicks=call.clicks))
    rules = count_rules(call.conn, call.tenant_id, event.name)
    return Answer(body={**_document(taken.event), "rules_of_name": rules}, status=201)


def _document(event: TakenEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "name": event.name,
        "rule_ids": event.rule_ids,
        "scheduled_action_ids": event.action_ids,
        "created_at": event.created_at,
    }


EVENT_ROUTES = (
    Route(
        method="POST",
        path="/events",
        operation_id="events.take",
        summary="Tell of an event: the rules that it matches schedule their actions",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        body=NewEventSchema,
        answers={201: EventSchema},
        handler=_take,
        creates=True,
    ),
)
