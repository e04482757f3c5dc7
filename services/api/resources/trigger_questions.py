"""What may be asked of triggers: what would they do, what did they, and why."""

from dataclasses import asdict
from datetime import datetime
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.cursors import Position
from services.api.fields import StrictSchema
from services.api.pages import page
from services.api.resources.access import table_of
from services.api.resources.triggers import NewTriggersSchema
from services.api.routes import Answer, Call, Route
from services.api.schemas import PageQuery, ProblemErrorSchema
from shared.domain.faults import MAX_POINTER, cut
from shared.domain.runs import RunKind, RunStatus
from shared.queries.timeline import Occurrence
from shared.schedule.local_times import Note
from shared.usecases.simulate import simulate
from shared.usecases.timeline import timeline
from shared.usecases.timeline_items import Item, Place
from shared.usecases.verdicts import VERDICTS
from shared.usecases.why import why

_TRIGGERS = "/tables/<uuid:table_id>/triggers"
_TRIGGER = _TRIGGERS + "/<trigger:trigger_id>"

_KINDS: tuple[RunKind, ...] = get_args(RunKind)
_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
_NOTES: tuple[Note, ...] = get_args(Note)
_MAX_DETAIL = 2000


class SimulationSchema(StrictSchema):
    """What the triggers would do; counts and codes of the whole table, no record and no cell.

    ``errors`` are those with which the save would be refused; empty: it would be taken.
    """

    table_id = fields.Uuid(required=True)
    evaluated_at = fields.Second(required=True)
    live_records = fields.Integer(required=True)
    triggers = fields.Json(
        required=True,
        metadata={"type": "array", "items": {"$ref": "#/components/schemas/SimulationArm"}},
    )
    errors = fields.Items(fields.Nested(ProblemErrorSchema), required=True)


class KnownRunSchema(StrictSchema):
    """A run as it is now."""

    id = fields.Integer(required=True)
    status = fields.Choice(*_STATUSES, required=True)
    error = fields.Text(max=1000, required=True, allow_none=True)


class WindowSchema(StrictSchema):
    """A window; ``local`` is the wall time in the zone of the schedule, ``offset`` its offset."""

    at = fields.Instant(required=True)
    key = fields.Text(max=40, required=True)
    local = fields.Text(max=19, required=True)
    offset = fields.Text(max=20, required=True)
    notes = fields.Items(fields.Choice(*_NOTES), required=True)


class TimelineItemSchema(StrictSchema):
    """A moment of a trigger.

    ``past``: ``at`` is the window of a clock, else when the value was consumed or the run made;
    ``run`` is null where none was made or it was deleted. ``ahead``: ``at`` is when it is due, and
    ``verdict`` what would come of it then, were it judged as it is now: ``due_now`` fires.
    """

    phase = fields.Choice("past", "ahead", required=True)
    at = fields.Instant(required=True)
    record_id = fields.Integer(required=True, allow_none=True)
    identity = fields.Text(max=200, required=True, allow_none=True)
    by_run = fields.Boolean(required=True, allow_none=True)
    run = fields.Nested(KnownRunSchema, required=True, allow_none=True)
    window = fields.Nested(WindowSchema, required=True, allow_none=True)
    verdict = fields.Choice(*VERDICTS, required=True, allow_none=True)


class TimelineSchema(StrictSchema):
    """A page of a timeline: what was, then what comes, each in the order of time.

    ``complete`` is false while the due index does not know all rows ahead yet.
    """

    table_id = fields.Uuid(required=True)
    trigger_id = fields.Text(max=16, required=True)
    kind = fields.Choice(*_KINDS, required=True, allow_none=True)
    evaluated_at = fields.Instant(required=True)
    since = fields.Instant(data_key="from", required=True)
    until = fields.Instant(data_key="to", required=True)
    complete = fields.Boolean(required=True)
    warnings = fields.Items(fields.Text(max=100), required=True)
    error_codes = fields.Items(fields.Text(max=100), required=True)
    items = fields.Items(fields.Nested(TimelineItemSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class TimelineQuery(PageQuery):
    """The range, at most 366 days; by default seven before now and seven behind."""

    since = fields.Instant(data_key="from", metadata={"description": "at or after"})
    until = fields.Instant(data_key="to", metadata={"description": "before"})


class CellSchema(StrictSchema):
    """The date cell as it is stored, and what it is read as; null where it cannot be read."""

    column = fields.Text(max=200, required=True)
    value = fields.Text(max=10_000, required=True, allow_none=True)
    identity = fields.Text(max=200, required=True, allow_none=True)
    instant = fields.Instant(required=True, allow_none=True)
    fire_at = fields.Instant(required=True, allow_none=True)


class ClauseSchema(StrictSchema):
    """The first predicate of ``when`` that does not match, its index, and the cell it saw."""

    index = fields.Integer(required=True)
    predicate = fields.Json(required=True, metadata={"$ref": "#/components/schemas/Predicate"})
    cell = fields.Json(required=True, allow_none=True)


class LedgerEntrySchema(StrictSchema):
    """A consumed identity; ``by_run`` is false when a save consumed it."""

    identity = fields.Text(max=200, required=True)
    consumed_at = fields.Instant(required=True)
    by_run = fields.Boolean(required=True)
    run = fields.Nested(KnownRunSchema, required=True, allow_none=True)


class EventRunSchema(KnownRunSchema):
    """A run of an event trigger."""

    identity = fields.Text(max=200, required=True)
    created_at = fields.Instant(required=True)


class ActiveRunSchema(StrictSchema):
    """The run that a clock trigger waits for."""

    id = fields.Integer(required=True)
    status = fields.Choice(*_STATUSES, required=True)


class WhySchema(StrictSchema):
    """The verdict, and what led to it; what does not apply is null or empty.

    ``fires``: the scheduler, or a write, would make a run now. ``ledger`` is about the value or the
    window at hand, ``history`` has the record's newest entries, ``look_at`` its place in the due
    index. ``window`` is the latest of a clock, ``next`` the one that comes.
    """

    table_id = fields.Uuid(required=True)
    trigger_id = fields.Text(max=16, required=True)
    kind = fields.Choice(*_KINDS, required=True, allow_none=True)
    evaluated_at = fields.Instant(required=True)
    record_id = fields.Integer(required=True, allow_none=True)
    verdict = fields.Choice(*VERDICTS, required=True)
    fires = fields.Boolean(required=True)
    error_codes = fields.Items(fields.Text(max=100), required=True)
    warnings = fields.Items(fields.Text(max=100), required=True)
    cell = fields.Nested(CellSchema, required=True, allow_none=True)
    clause = fields.Nested(ClauseSchema, required=True, allow_none=True)
    ledger = fields.Nested(LedgerEntrySchema, required=True, allow_none=True)
    history = fields.Items(fields.Nested(LedgerEntrySchema), required=True)
    look_at = fields.Instant(required=True, allow_none=True)
    last_run = fields.Nested(EventRunSchema, required=True, allow_none=True)
    anchor_at = fields.Instant(required=True, allow_none=True)
    last_consumed_window_at = fields.Instant(required=True, allow_none=True)
    window = fields.Nested(WindowSchema, required=True, allow_none=True)
    due_at = fields.Instant(required=True, allow_none=True)
    active_run = fields.Nested(ActiveRunSchema, required=True, allow_none=True)
    next = fields.Nested(WindowSchema, required=True, allow_none=True)


class WhyQuery(StrictSchema):
    """The row; triggers of a clock have none, all others need it."""

    record_id = fields.QueryInteger(min=1)


def _simulate(call: Call) -> Answer:
    table = table_of(call)
    with call.questions.turn(table.tenant_id):
        told = simulate(
            call.conn,
            table,
            call.body["triggers"],
            channel_id=call.caller.channel_id,
            now=call.now,
        )
    errors = [
        {
            "pointer": cut(fault.pointer, MAX_POINTER),
            "code": fault.code,
            "detail": cut(fault.message, _MAX_DETAIL),
        }
        for fault in told.faults
    ]
    body = {
        "table_id": told.table_id,
        "evaluated_at": told.evaluated_at,
        "live_records": told.live_records,
        "triggers": told.triggers,
        "errors": errors,
    }
    return Answer(body=body)


def _timeline(call: Call) -> Answer:
    told = timeline(
        call.conn,
        table_of(call),
        call.ids["trigger_id"],
        from_at=call.query.get("since"),
        to_at=call.query.get("until"),
        after=_place(call.position),
        limit=call.query["limit"],
        now=call.now,
    )
    answer = page(
        call,
        told.items,
        more=told.more,
        position=lambda item: (*item.place[:1], item.place.at.isoformat(), *item.place[2:]),
        document=_item,
    )
    assert isinstance(answer.body, dict)
    body = {
        "table_id": told.table_id,
        "trigger_id": told.trigger_id,
        "kind": told.kind,
        "evaluated_at": told.evaluated_at,
        "since": told.from_at,
        "until": told.to_at,
        "complete": told.complete,
        "warnings": told.warnings,
        "error_codes": told.error_codes,
        **answer.body,
    }
    return Answer(body=body)


def _place(position: Position | None) -> Place | None:
    if position is None:
        return None
    phase, at, number, identity = position
    return Place(
        "past" if phase == "past" else "ahead",
        datetime.fromisoformat(str(at)),
        int(number),
        str(identity),
    )


def _item(item: Item) -> dict[str, Any]:
    return {
        "phase": item.place.phase,
        "at": item.at,
        "record_id": item.record_id,
        "identity": item.identity,
        "by_run": item.by_run,
        "run": item.run,
        "window": item.window,
        "verdict": item.verdict,
    }


def _why(call: Call) -> Answer:
    told = why(
        call.conn,
        table_of(call),
        call.ids["trigger_id"],
        record_id=call.query.get("record_id"),
        now=call.now,
    )
    body = {
        **asdict(told),
        "ledger": None if told.ledger is None else _entry(told.ledger),
        "history": [_entry(one) for one in told.history],
    }
    return Answer(body=body)


def _entry(one: Occurrence) -> dict[str, Any]:
    run = {"id": one.run_id, "status": one.run_status, "error": one.run_error}
    return {
        "identity": one.identity,
        "consumed_at": one.consumed_at,
        "by_run": one.by_run,
        "run": None if one.run_id is None else run,
    }


TRIGGER_QUESTION_ROUTES = (
    Route(
        method="POST",
        path=_TRIGGERS + "/simulate",
        operation_id="triggers.simulate",
        summary="See what triggers would do, over the whole table, before they are saved",
        roles=MODERATOR,
        body=NewTriggersSchema,
        answers={200: SimulationSchema},
        handler=_simulate,
        own_transactions=True,
    ),
    Route(
        method="GET",
        path=_TRIGGER + "/timeline",
        operation_id="triggers.timeline",
        summary="See what a trigger did, with its runs, and what lies ahead of it",
        roles=MODERATOR,
        query=TimelineQuery,
        answers={200: TimelineSchema},
        handler=_timeline,
        own_transactions=True,
    ),
    Route(
        method="GET",
        path=_TRIGGER + "/why",
        operation_id="triggers.why",
        summary="See why a trigger fires, or does not: for one row, or for its clock",
        roles=MODERATOR,
        query=WhyQuery,
        answers={200: WhySchema},
        handler=_why,
        own_transactions=True,
    ),
)
