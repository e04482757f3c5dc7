"""Staged changes: list, look at, approve and reject (one, or all that a filter finds)."""

from collections.abc import Mapping
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_id, page
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from services.api.schemas import PageQuery
from shared.domain.columns import Column
from shared.domain.staged_changes import (
    MAX_REASON,
    ChangeStatus,
    Operation,
    StagedChange,
    Verdict,
)
from shared.queries.change_lists import ChangeFilter, get_change, list_changes
from shared.usecases.review_changes import Review, approve_change, reject_change, review_changes

_CHANGES = "/tables/<uuid:table_id>/staged-changes"
_CHANGE = _CHANGES + "/<id:change_id>"

_STATUSES: tuple[ChangeStatus, ...] = get_args(ChangeStatus)
_OPERATIONS: tuple[Operation, ...] = get_args(Operation)


class StagedChangeSchema(StrictSchema):
    """A staged change; its cells are told by the names that the columns have now.

    ``base`` are the cells as they were when it was staged: of an update those that it replaces, of
    a delete all. ``reviewed_by`` is the API token of the review, null for the admin.
    """

    id = fields.Integer(required=True)
    table_id = fields.Uuid(required=True)
    operation = fields.Choice(*_OPERATIONS, required=True)
    record_id = fields.Integer(
        required=True,
        allow_none=True,
        metadata={"description": "of a create: the record that it made, once applied"},
    )
    base_version = fields.Integer(required=True, allow_none=True)
    base = fields.Members(required=True, allow_none=True)
    proposed = fields.Members(required=True, allow_none=True)
    run_id = fields.Integer(required=True, allow_none=True)
    scheduled_action_id = fields.Integer(required=True, allow_none=True)
    status = fields.Choice(*_STATUSES, required=True)
    reviewed_at = fields.Instant(required=True, allow_none=True)
    reviewed_by = fields.Uuid(required=True, allow_none=True)
    reason = fields.Text(max=MAX_REASON, required=True, allow_none=True)
    error = fields.Text(max=1000, required=True, allow_none=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)
    finished_at = fields.Instant(required=True, allow_none=True)


class StagedChangePageSchema(StrictSchema):
    """A page of changes, the newest first; with large cells it may be short."""

    items = fields.Items(fields.Nested(StagedChangeSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class StagedChangeListQuery(PageQuery):
    """Which changes."""

    status = fields.Choice(*_STATUSES)
    operation = fields.Choice(*_OPERATIONS)
    record_id = fields.QueryInteger(min=1)
    run_id = fields.QueryInteger(min=1)
    since = fields.Instant(data_key="from", metadata={"description": "staged at or after"})
    until = fields.Instant(data_key="to", metadata={"description": "staged before"})


class ReviewSchema(StrictSchema):
    """Why, if you want to say so."""

    reason = fields.Text(min=1, max=MAX_REASON, allow_none=True)


class ReviewFilterSchema(ReviewSchema):
    """Which pending changes to review, the oldest first; without a filter all of the table."""

    operation = fields.Choice(*_OPERATIONS)
    record_id = fields.Integer(min=1)
    run_id = fields.Integer(min=1)
    since = fields.Instant(data_key="from")
    until = fields.Instant(data_key="to")
    limit = fields.Integer(min=1, max=1000, load_default=1000)


class ReviewCountsSchema(StrictSchema):
    """What a bulk review did; ``more``: it stopped at its limit, and others may be left."""

    reviewed = fields.Integer(required=True)
    more = fields.Boolean(required=True)


def _list(call: Call) -> Answer:
    table = table_of(call)
    found = list_changes(
        call.conn,
        table,
        _filter(call.query),
        before=after_id(call),
        limit=call.query["limit"],
    )
    return page(
        call,
        found.items,
        more=found.more,
        position=lambda change: (change.id,),
        document=lambda change: _document(change, table.columns),
    )


def _filter(given: Mapping[str, Any]) -> ChangeFilter:
    return ChangeFilter(
        status=given.get("status"),
        operation=given.get("operation"),
        record_id=given.get("record_id"),
        run_id=given.get("run_id"),
        from_at=given.get("since"),
        to_at=given.get("until"),
    )


def _get(call: Call) -> Answer:
    table = table_of(call)
    change = get_change(call.conn, table, call.ids["change_id"])
    return Answer(body=_document(change, table.columns))


def _approve(call: Call) -> Answer:
    table = table_of(call)
    change = approve_change(call.conn, table, call.ids["change_id"], _review(call), now=call.now)
    return Answer(body=_document(change, table.columns))


def _reject(call: Call) -> Answer:
    table = table_of(call)
    change = reject_change(call.conn, table, call.ids["change_id"], _review(call), now=call.now)
    return Answer(body=_document(change, table.columns))


def _approve_all(call: Call) -> Answer:
    return _review_all(call, "approved")


def _reject_all(call: Call) -> Answer:
    return _review_all(call, "rejected")


def _review_all(call: Call, verdict: Verdict) -> Answer:
    counts = review_changes(
        call.conn,
        table_of(call),
        _filter(call.body),
        verdict,
        _review(call),
        limit=call.body["limit"],
        now=call.now,
    )
    return Answer(body=counts)


def _review(call: Call) -> Review:
    return Review(reviewed_by=call.caller.token_id, reason=call.body.get("reason"))


def _document(change: StagedChange, columns: tuple[Column, ...]) -> dict[str, Any]:
    return {
        "id": change.id,
        "table_id": change.table_id,
        "operation": change.operation,
        "record_id": change.record_id,
        "base_version": change.base_version,
        "base": _named(change.base, columns),
        "proposed": _named(change.proposed, columns),
        "run_id": change.run_id,
        "scheduled_action_id": change.scheduled_action_id,
        "status": change.status,
        "reviewed_at": change.reviewed_at,
        "reviewed_by": change.reviewed_by,
        "reason": change.reason,
        "error": change.error,
        "created_at": change.created_at,
        "updated_at": change.updated_at,
        "finished_at": change.finished_at,
    }


def _named(cells: Mapping[str, Any] | None, columns: tuple[Column, ...]) -> dict[str, Any] | None:
    """Return the cells by column name, without those of columns that were dropped."""
    if cells is None:
        return None
    return {column.name: cells[column.id] for column in columns if column.id in cells}


STAGED_CHANGE_ROUTES = (
    Route(
        method="GET",
        path=_CHANGES,
        operation_id="stagedChanges.list",
        summary="List what actions want to write, the newest first",
        roles=MODERATOR,
        query=StagedChangeListQuery,
        answers={200: StagedChangePageSchema},
        handler=_list,
    ),
    Route(
        method="POST",
        path=_CHANGES + "/approve",
        operation_id="stagedChanges.approveAll",
        summary="Approve the pending changes that a filter finds, the oldest first",
        roles=MODERATOR,
        body=ReviewFilterSchema,
        answers={200: ReviewCountsSchema},
        handler=_approve_all,
    ),
    Route(
        method="POST",
        path=_CHANGES + "/reject",
        operation_id="stagedChanges.rejectAll",
        summary="Reject the pending changes that a filter finds, the oldest first",
        roles=MODERATOR,
        body=ReviewFilterSchema,
        answers={200: ReviewCountsSchema},
        handler=_reject_all,
    ),
    Route(
        method="GET",
        path=_CHANGE,
        operation_id="stagedChanges.get",
        summary="Look at a staged change",
        roles=MODERATOR,
        answers={200: StagedChangeSchema},
        handler=_get,
    ),
    Route(
        method="POST",
        path=_CHANGE + "/approve",
        operation_id="stagedChanges.approve",
        summary="Approve a pending change: a worker applies it, unless its record has changed",
        roles=MODERATOR,
        body=ReviewSchema,
        body_optional=True,
        answers={200: StagedChangeSchema},
        handler=_approve,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_CHANGE + "/reject",
        operation_id="stagedChanges.reject",
        summary="Reject a pending change: nothing is written",
        roles=MODERATOR,
        body=ReviewSchema,
        body_optional=True,
        answers={200: StagedChangeSchema},
        handler=_reject,
        conflicts=True,
    ),
)
