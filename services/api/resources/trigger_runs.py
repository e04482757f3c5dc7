"""Runs of triggers: list, look at, retry and cancel (one, or all that a filter finds), delete."""

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_id, page
from services.api.resources.access import table_of
from services.api.routes import Answer, Call, Route
from services.api.schemas import TRACE_ID, CancelCountsSchema, PageQuery
from shared.domain.columns import Column, cells_by_name
from shared.domain.runs import Run, RunKind, RunStatus
from shared.observability.trace_ids import Row, trace_id_of
from shared.queries.definitions import list_frozen_columns
from shared.queries.run_lists import RunFilter, get_run, list_runs
from shared.usecases.manage_work import cancel_run, cancel_runs, delete_run, retry_run, retry_runs

_RUNS = "/tables/<uuid:table_id>/trigger-runs"
_RUN = _RUNS + "/<id:run_id>"

_STATUSES: tuple[RunStatus, ...] = get_args(RunStatus)
_KINDS: tuple[RunKind, ...] = get_args(RunKind)

_FROM = {"description": "created at or after"}
_TO = {"description": "created before"}


class RunSchema(StrictSchema):
    """A run. ``snapshot`` is the row as it was judged, by column name; empty without a row."""

    id = fields.Integer(required=True)
    table_id = fields.Uuid(required=True)
    trigger_id = fields.Text(max=20, required=True)
    kind = fields.Choice(*_KINDS, required=True)
    record_id = fields.Integer(required=True, allow_none=True)
    identity = fields.Text(max=200, required=True)
    window_key = fields.Text(max=40, required=True, allow_none=True)
    scheduled_for = fields.Instant(required=True)
    status = fields.Choice(*_STATUSES, required=True)
    attempts = fields.Integer(required=True)
    starts = fields.Integer(required=True)
    worker_losses = fields.Integer(required=True)
    next_attempt_at = fields.Instant(required=True, allow_none=True)
    snapshot = fields.Members(required=True)
    action_results = fields.Items(
        fields.Members(),
        required=True,
        metadata={"description": "one receipt per action, in order"},
    )
    error = fields.Text(max=1000, required=True, allow_none=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)
    finished_at = fields.Instant(required=True, allow_none=True)
    trace_id = fields.Text(max=32, required=True, metadata=TRACE_ID)


class RunPageSchema(StrictSchema):
    """A page of runs, the newest first; with large rows it may be short although others follow."""

    items = fields.Items(fields.Nested(RunSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class RunListQuery(PageQuery):
    """Which runs; ``stuck``: failed, or running without a sign of life for 300 s."""

    status = fields.Choice(*_STATUSES, "stuck")
    trigger_id = fields.Text(max=16)
    record_id = fields.QueryInteger(min=1)
    since = fields.Instant(data_key="from", metadata=_FROM)
    until = fields.Instant(data_key="to", metadata=_TO)


class RetryFilterSchema(StrictSchema):
    """Which runs to retry; what the filter finds and may not be retried is counted as skipped."""

    status = fields.Choice("pending", "failed", "stuck", load_default="failed")
    trigger_id = fields.Text(max=16)
    record_id = fields.Integer(min=1)
    since = fields.Instant(data_key="from", metadata=_FROM)
    until = fields.Instant(data_key="to", metadata=_TO)
    limit = fields.Integer(min=1, max=1000, load_default=1000)


class RetryCountsSchema(StrictSchema):
    """What a bulk retry did; ``more`` says that the limit left some."""

    retried = fields.Integer(required=True)
    skipped = fields.Integer(required=True)


class RunCancelFilterSchema(StrictSchema):
    """Which pending runs of the table to cancel: all of them, if nothing restricts it."""

    trigger_id = fields.Text(max=16)
    record_id = fields.Integer(min=1)
    since = fields.Instant(data_key="from", metadata=_FROM)
    until = fields.Instant(data_key="to", metadata=_TO)
    dry_run = fields.Boolean(
        load_default=False, metadata={"description": "count alone, cancel nothing"}
    )


def _list(call: Call) -> Answer:
    table = table_of(call)
    found = list_runs(
        call.conn,
        table,
        _filter(call.query),
        before=after_id(call),
        limit=call.query["limit"],
        now=call.now,
    )
    columns = _columns(call, found.items)
    return page(
        call,
        found.items,
        more=found.more,
        position=lambda run: (run.id,),
        document=lambda run: _document(run, columns[run.definition_hash]),
    )


def _filter(given: Mapping[str, Any]) -> RunFilter:
    return RunFilter(
        status=given.get("status"),
        trigger_id=given.get("trigger_id"),
        record_id=given.get("record_id"),
        from_at=given.get("since"),
        to_at=given.get("until"),
    )


def _get(call: Call) -> Answer:
    return _answer(call, get_run(call.conn, table_of(call), call.ids["run_id"]))


def _retry(call: Call) -> Answer:
    table = table_of(call)
    return _answer(call, retry_run(call.conn, table, call.ids["run_id"], now=call.now))


def _retry_all(call: Call) -> Answer:
    table = table_of(call)
    counts = retry_runs(
        call.conn, table, _filter(call.body), limit=call.body["limit"], now=call.now
    )
    return Answer(body=counts)


def _cancel(call: Call) -> Answer:
    table = table_of(call)
    return _answer(call, cancel_run(call.conn, table, call.ids["run_id"], now=call.now))


def _cancel_all(call: Call) -> Answer:
    counts = cancel_runs(
        call.conn,
        table_of(call),
        _filter(call.body),
        dry_run=call.body["dry_run"],
        now=call.now,
    )
    return Answer(body=counts)


def _delete(call: Call) -> Answer:
    delete_run(call.conn, table_of(call), call.ids["run_id"])
    return Answer(status=204)


def _answer(call: Call, run: Run) -> Answer:
    return Answer(body=_document(run, _columns(call, [run])[run.definition_hash]))


def _columns(call: Call, runs: Sequence[Run]) -> dict[bytes, tuple[Column, ...]]:
    """Return the columns as they were when each run was made, by the hash of its definition."""
    keys = {(run.tenant_id, run.definition_hash) for run in runs}
    columns = list_frozen_columns(call.conn, sorted(keys))
    return {hash: known for (_, hash), known in columns.items()}


def _document(run: Run, columns: tuple[Column, ...]) -> dict[str, Any]:
    return {
        "id": run.id,
        "table_id": run.table_id,
        "trigger_id": run.trigger_id,
        "kind": run.kind,
        "record_id": run.record_id,
        "identity": run.identity,
        "window_key": run.window_key,
        "scheduled_for": run.scheduled_for,
        "status": run.status,
        "attempts": run.attempts,
        "starts": run.starts,
        "worker_losses": run.worker_losses,
        "next_attempt_at": run.next_attempt_at,
        "snapshot": {} if run.snapshot is None else cells_by_name(run.snapshot, columns),
        "action_results": run.action_results,
        "error": run.error,
        "created_at": run.created_at,
        "updated_at": run.updated_at,
        "finished_at": run.finished_at,
        "trace_id": trace_id_of(Row(run.tenant_id, "trigger_run", run.id)),
    }


TRIGGER_RUN_ROUTES = (
    Route(
        method="GET",
        path=_RUNS,
        operation_id="triggerRuns.list",
        summary="List runs, the newest first",
        roles=MODERATOR,
        query=RunListQuery,
        answers={200: RunPageSchema},
        handler=_list,
    ),
    Route(
        method="POST",
        path=_RUNS + "/retry",
        operation_id="triggerRuns.retryAll",
        summary="Retry the runs that a filter finds, the newest first",
        roles=MODERATOR,
        body=RetryFilterSchema,
        answers={200: RetryCountsSchema},
        handler=_retry_all,
    ),
    Route(
        method="POST",
        path=_RUNS + "/cancel",
        operation_id="triggerRuns.cancelAll",
        summary="Cancel the pending runs that a filter finds, the oldest first",
        roles=MODERATOR,
        body=RunCancelFilterSchema,
        answers={200: CancelCountsSchema},
        handler=_cancel_all,
    ),
    Route(
        method="GET",
        path=_RUN,
        operation_id="triggerRuns.get",
        summary="Look at a run and its receipts",
        roles=MODERATOR,
        answers={200: RunSchema},
        handler=_get,
    ),
    Route(
        method="POST",
        path=_RUN + "/retry",
        operation_id="triggerRuns.retry",
        summary="Retry a run by hand: same identity, same frozen definition, a fresh budget",
        roles=MODERATOR,
        answers={200: RunSchema},
        handler=_retry,
        conflicts=True,
    ),
    Route(
        method="POST",
        path=_RUN + "/cancel",
        operation_id="triggerRuns.cancel",
        summary="Cancel a pending run",
        roles=MODERATOR,
        answers={200: RunSchema},
        handler=_cancel,
        conflicts=True,
    ),
    Route(
        method="DELETE",
        path=_RUN,
        operation_id="triggerRuns.delete",
        summary="Delete a run that has ended; the ledger keeps its identity",
        roles=MODERATOR,
        answers={204: None},
        handler=_delete,
        conflicts=True,
    ),
)
