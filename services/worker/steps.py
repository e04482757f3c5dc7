"""What a worker writes about the runs it holds; each step is written only under the run's lease.

So a step may be sent again after a lost answer, and whoever lost its lease changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.runs import ClaimedRun, stored_receipts
from shared.observability import metrics
from shared.queries import work

_log = structlog.get_logger()

Receipts = list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The external action at ``position`` is about to be sent."""

    work: ClaimedRun
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """The receipts so far; the run goes on. ``is_ok``: the last action ended well."""

    work: ClaimedRun
    receipts: Receipts
    is_ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The run ends; ``error`` is None exactly when it is done.

    ``receipts`` None: those stored stay.
    """

    work: ClaimedRun
    receipts: Receipts | None
    status: Literal["done", "failed"]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone:
    """The run waits ``delay_seconds`` in the database and then goes on.

    ``receipts`` None: those stored stay, for nobody knows what came of the action.
    """

    work: ClaimedRun
    receipts: Receipts | None
    delay_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """The run did not begin, or stands between two actions: somebody else may have it.

    ``is_unsent``: an intent was written whose call has not begun.
    """

    work: ClaimedRun
    is_unsent: bool = False


Step = Intent | Save | Finish | Postpone | HandBack


def ids_of(run: ClaimedRun) -> dict[str, object]:
    """Return what every log line about a run names."""
    return {
        "tenant_id": str(run.tenant_id),
        "table_id": str(run.table_id),
        "trigger_id": run.trigger_id,
        "run_id": run.id,
    }


def tell_outcome(step: Step) -> None:
    """Count and log what came of an execution, if this step was its last and has been written."""
    match step:
        case Finish(status="done"):
            # A line for each would cost as much as a small run: only who asks gets it.
            _log.debug("run_done", **ids_of(step.work))
            metrics.RUN_OUTCOMES.labels("done").inc()
        case Finish():
            _log.warning("run_failed", **ids_of(step.work))
            metrics.RUN_OUTCOMES.labels("failed").inc()
        case Postpone():
            seconds = round(step.delay_seconds)
            _log.info("run_postponed", seconds=seconds, **ids_of(step.work))
            metrics.RUN_OUTCOMES.labels("postponed").inc()
        case _:
            pass


def write_steps(conn: Connection, steps: Sequence[Step]) -> set[int]:
    """Write the steps, one a run at most; return the ids of the runs whose lease still held."""
    held: set[int] = set()
    steps = sorted(steps, key=lambda step: step.work.id)
    for step in steps:
        if isinstance(step, Save | Postpone):
            held |= _write_one(conn, step)
    for token, intents in _by_token(step for step in steps if isinstance(step, Intent)).items():
        held.update(work.mark_intents(conn, lease_token=token, intents=intents))
    if finishes := [_finish_of(step) for step in steps if isinstance(step, Finish)]:
        held.update(work.finish(conn, finishes))
    if back := [step for step in steps if isinstance(step, HandBack)]:
        leases = [(step.work.id, step.work.lease_token) for step in back]
        unsent = [step.work.id for step in back if step.is_unsent]
        held.update(work.hand_back(conn, leases, unsent=unsent))
    return held


def _by_token(intents: Iterable[Intent]) -> dict[UUID, list[tuple[int, int]]]:
    groups: dict[UUID, list[tuple[int, int]]] = {}
    for intent in intents:
        groups.setdefault(intent.work.lease_token, []).append((intent.work.id, intent.position))
    return groups


def _finish_of(step: Finish) -> work.Finish:
    return work.Finish(
        run_id=step.work.id,
        lease_token=step.work.lease_token,
        receipts=_stored(step.receipts),
        status=step.status,
        error=step.error,
    )


def _write_one(conn: Connection, step: Save | Postpone) -> set[int]:
    held = step.work
    if isinstance(step, Save):
        written = work.save_receipts(
            conn,
            run_id=held.id,
            lease_token=held.lease_token,
            receipts=stored_receipts(step.receipts),
            is_ok=step.is_ok,
        )
    else:
        written = work.postpone(
            conn,
            run_id=held.id,
            lease_token=held.lease_token,
            receipts=_stored(step.receipts),
            delay_seconds=step.delay_seconds,
        )
    return {held.id} if written else set()


def _stored(receipts: Receipts | None) -> Receipts | None:
    return None if receipts is None else stored_receipts(receipts)
