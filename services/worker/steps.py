"""What a worker writes about the work it holds; each step is written only under its lease.

So a step may be sent again after a lost answer, and whoever lost its lease changes nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, get_args
from uuid import UUID

import structlog
from psycopg import Connection

from shared.domain.runs import ClaimedRun, stored_receipts
from shared.domain.scheduled_actions import ClaimedAction
from shared.domain.staged_changes import ApprovedChange
from shared.domain.work import Claimed, Reference, ReferenceKind, WorkKind
from shared.observability import metrics
from shared.queries import approved_changes, work

_log = structlog.get_logger()

Receipts = list[dict[str, Any]]
Key = tuple[ReferenceKind, int]
"""Which row a step is about."""


class Follow(Protocol):
    """What follows upon the end of work."""

    def record(self, conn: Connection) -> None:
        """Record it, in the transaction of the end; called again where that had to be repeated."""

    def settle(self, conn: Connection) -> None:
        """Do what is left when that transaction has committed, outside of any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The external action at ``position`` is about to be sent."""

    work: Claimed
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Save:
    """The receipts so far; the work goes on. ``is_ok``: the last action ended well."""

    work: Claimed
    receipts: Receipts
    is_ok: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """The work ends; ``error`` is None exactly when it is done.

    ``receipts`` None: those stored stay. ``follow`` records what comes next with its end.
    """

    work: Claimed
    receipts: Receipts | None
    status: Literal["done", "failed", "cancelled"]
    error: str | None
    follow: Follow | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone:
    """The work waits ``delay_seconds`` in the database and then goes on.

    ``receipts`` None: those stored stay, for nobody knows what came of the action. ``action_type``
    is the action that was begun and is executed again; None: none was, which is no attempt.
    """

    work: Claimed
    receipts: Receipts | None
    delay_seconds: float
    action_type: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HandBack:
    """The work did not begin, or stands between two actions: somebody else may have it.

    ``is_unsent``: an intent was written whose call has not begun.
    """

    work: Claimed
    is_unsent: bool = False


Step = Intent | Save | Finish | Postpone | HandBack


def key_of(held: Claimed) -> Key:
    """Return which row it is: ids are those of a table alone."""
    return held.work_kind, held.id


def ids_of(held: Claimed) -> dict[str, str | int]:
    """Return what every log line about a piece of work names."""
    ids: dict[str, str | int] = {"tenant_id": str(held.tenant_id)}
    match held:
        case ClaimedRun():
            ids |= {"table_id": str(held.table_id), "trigger_id": held.trigger_id}
            ids["run_id"] = held.id
        case ClaimedAction():
            ids["scheduled_action_id"] = held.id
            if held.execution is not None:
                ids["workflow_id"] = held.execution.workflow_id
                ids["execution_id"] = str(held.execution.id)
        case ApprovedChange():
            ids |= {"table_id": str(held.table_id), "staged_change_id": held.id}
    return ids


def tell_outcome(step: Step) -> None:
    """Count and log what came of an execution, if this step was its last and has been written."""
    match step:
        case Finish(status="done"):
            # A line for each would cost as much as a small run: only who asks gets it.
            _log.debug("work_done", **ids_of(step.work))
        case Finish(status="cancelled"):
            _log.info("work_cancelled", reason=step.error, **ids_of(step.work))
        case Finish():
            _log.warning("work_failed", **ids_of(step.work))
        case Postpone():
            seconds = round(step.delay_seconds)
            _log.info("work_postponed", seconds=seconds, **ids_of(step.work))
            if step.action_type is not None:
                metrics.RETRIES.labels(kind=step.work.work_kind, type=step.action_type).inc()
        case _:
            return
    status = step.status if isinstance(step, Finish) else "postponed"
    metrics.WORK_OUTCOMES.labels(kind=step.work.work_kind, status=status).inc()


def write_steps(conn: Connection, steps: Sequence[Step]) -> set[Key]:
    """Write the steps, one a row at most; return the rows whose lease still held.

    What follows upon the end of one that was held is recorded in the same transaction.
    """
    held: set[Key] = set()
    for kind in get_args(WorkKind):
        own = [step for step in steps if step.work.work_kind == kind]
        held |= {(kind, id) for id in _write(conn, kind, own)}
    held |= {("staged_change", id) for id in _take_back(conn, steps)}
    for step in steps:
        if isinstance(step, Finish) and step.follow and key_of(step.work) in held:
            step.follow.record(conn)
    return held


def _take_back(conn: Connection, steps: Sequence[Step]) -> list[int]:
    """Offer changes anew that were not begun; they have no other step."""
    back = [
        Reference(id=step.work.id, token=step.work.lease_token)
        for step in steps
        if isinstance(step, HandBack) and isinstance(step.work, ApprovedChange)
    ]
    return approved_changes.unannounce_changes(conn, back) if back else []


def _write(conn: Connection, kind: WorkKind, steps: Sequence[Step]) -> set[int]:
    held: set[int] = set()
    steps = sorted(steps, key=lambda step: step.work.id)
    for step in steps:
        if isinstance(step, Save | Postpone):
            held |= _write_one(conn, kind, step)
    for token, intents in _by_token(step for step in steps if isinstance(step, Intent)).items():
        held.update(work.mark_intents(conn, kind=kind, lease_token=token, intents=intents))
    if finishes := [_finish_of(step) for step in steps if isinstance(step, Finish)]:
        held.update(work.finish(conn, finishes, kind=kind))
    if back := [step for step in steps if isinstance(step, HandBack)]:
        leases = [(step.work.id, step.work.lease_token) for step in back]
        unsent = [step.work.id for step in back if step.is_unsent]
        held.update(work.hand_back(conn, leases, kind=kind, unsent=unsent))
    return held


def _by_token(intents: Iterable[Intent]) -> dict[UUID, list[tuple[int, int]]]:
    groups: dict[UUID, list[tuple[int, int]]] = {}
    for intent in intents:
        groups.setdefault(intent.work.lease_token, []).append((intent.work.id, intent.position))
    return groups


def _finish_of(step: Finish) -> work.Finish:
    return work.Finish(
        id=step.work.id,
        lease_token=step.work.lease_token,
        receipts=_stored(step.receipts),
        status=step.status,
        error=step.error,
    )


def _write_one(conn: Connection, kind: WorkKind, step: Save | Postpone) -> set[int]:
    held = step.work
    if isinstance(step, Save):
        written = work.save_receipts(
            conn,
            kind=kind,
            id=held.id,
            lease_token=held.lease_token,
            receipts=stored_receipts(step.receipts),
            is_ok=step.is_ok,
        )
    else:
        written = work.postpone(
            conn,
            kind=kind,
            id=held.id,
            lease_token=held.lease_token,
            receipts=_stored(step.receipts),
            delay_seconds=step.delay_seconds,
            counts=step.action_type is not None,
        )
    return {held.id} if written else set()


def _stored(receipts: Receipts | None) -> Receipts | None:
    return None if receipts is None else stored_receipts(receipts)
