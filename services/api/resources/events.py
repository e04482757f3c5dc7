"""Events: sent once, they make the rules of their name schedule actions."""

from datetime import datetime
from functools import partial
from typing import Any

from services.api import fields
from services.api.auth import INTERNAL_CALLERS
from services.api.cursors import Position
from services.api.fields import StrictSchema
from services.api.pages import page
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.event_rules import MAX_EVENT_NAME
from shared.queries.event_lists import EventFilter, PastEvent, Place, get_event, list_events
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


class PastEventSchema(StrictSchema):
    """An event as it was told, and what came of it then."""

    id = fields.Integer(required=True)
    name = fields.Text(max=MAX_EVENT_NAME, required=True)
    line_user_id = fields.Integer(required=True, allow_none=True)
    data = fields.Members(required=True)
    idempotency_key = fields.Text(max=_MAX_KEY, required=True, allow_none=True)
    rule_ids = fields.Items(
        fields.Integer(), required=True, metadata={"description": "the rules that matched"}
    )
    scheduled_action_ids = fields.Items(
        fields.Integer(),
        required=True,
        metadata={"description": "what these scheduled; it is deleted some time after its end"},
    )
    created_at = fields.Instant(required=True)


class EventPageSchema(StrictSchema):
    """A page of events, the newest first; with large data it may be short though others follow."""

    items = fields.Items(fields.Nested(PastEventSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class EventListQuery(TenantPageQuery):
    """Which events."""

    name = fields.Text(min=1, max=MAX_EVENT_NAME)
    since = fields.Instant(data_key="from", metadata={"description": "taken at or after"})
    until = fields.Instant(data_key="to", metadata={"description": "taken before"})


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


def _list(call: Call) -> Answer:
    query = call.query
    found = list_events(
        call.conn,
        call.tenant_id,
        EventFilter(name=query.get("name"), from_at=query.get("since"), to_at=query.get("until")),
        before=_before(call),
        limit=query["limit"],
    )
    return page(call, found.items, more=found.more, position=_position, document=_past)


def _position(event: PastEvent) -> Position:
    return event.created_at.isoformat(), event.id


def _before(call: Call) -> Place | None:
    if call.position is None:
        return None
    created_at, event_id = call.position
    return datetime.fromisoformat(str(created_at)), int(event_id)


def _get(call: Call) -> Answer:
    return Answer(body=_past(get_event(call.conn, call.tenant_id, call.ids["event_id"])))


def _past(event: PastEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "name": event.name,
        "line_user_id": event.line_user_id,
        "data": event.data,
        "idempotency_key": event.idempotency_key,
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
    Route(
        method="GET",
        path="/events",
        operation_id="events.list",
        summary="List the events that were taken, the newest first",
        roles=INTERNAL_CALLERS,
        query=EventListQuery,
        answers={200: EventPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path="/events/<id:event_id>",
        operation_id="events.get",
        summary="Look at an event and what came of it",
        roles=INTERNAL_CALLERS,
        query=TenantQuery,
        answers={200: PastEventSchema},
        handler=_get,
    ),
)
