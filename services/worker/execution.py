"""One execution of one action of claimed work, as a value: what it leaves behind, well or not."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, Protocol

from psycopg import Connection, InternalError, OperationalError

from services.worker.steps import Finish, Follow, Receipts, Save
from shared.actions.action import ActionContext, Config, Effect, Services, Unfinished
from shared.actions.failures import ActionFailed
from shared.domain.runs import is_settled, is_unfinished, receipt, run_error
from shared.domain.strict_json import Json
from shared.domain.work import Claimed
from shared.errors import Unavailable

Connect = Callable[[], AbstractContextManager[Connection]]


class Performed(Protocol):
    """What executes an action: an action type, or what stands for one."""

    @property
    def type(self) -> str:
        """What it is counted as."""
        ...

    def effect(self, services: Services) -> Effect:
        """Return whether an execution stays in our database or can be sent twice.

        Stepwise: it stays there, and may take more than one transaction.
        """
        ...

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json] | Unfinished:
        """Do it, and return what the receipt tells beside the common keys. Raises ActionFailed.

        A stepwise action may return after a step.
        """
        ...


class Script(Protocol):
    """What a claimed piece of work executes: its actions in order, and what its end brings."""

    @property
    def work(self) -> Claimed:
        """What was claimed."""
        ...

    @property
    def actions(self) -> Sequence[Config]:
        """The settings of the actions."""
        ...

    def action(self, position: int) -> Performed | None:
        """Return what executes the action at ``position``, None if this release has no such."""
        ...

    def context(
        self, position: int, *, now: datetime, services: Services, connect: Connect
    ) -> ActionContext:
        """Return what the action at ``position`` is given when it begins ``now``."""
        ...

    def finish(self, receipts: Receipts, *, now: datetime) -> Finish:
        """Return the end of the work once every action is settled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Why an action did not end well; ``transient`` means that another execution may.

    ``unknown``: what it was to do may be done all the same.
    """

    detail: str
    transient: bool
    retry_after: float | None = None
    unknown: bool = False
    result: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """The action at ``position`` (from 0), begun with the receipts that the work had then."""

    script: Script
    position: int
    receipts: Receipts
    started_at: datetime

    @property
    def work(self) -> Claimed:
        """What was claimed."""
        return self.script.work

    @property
    def config(self) -> Config:
        """The action's settings."""
        return self.script.actions[self.position]

    @property
    def continues(self) -> bool:
        """Whether the work goes on past a failure of this action."""
        return self.config.get("on_error") == "continue"

    @property
    def was_opened(self) -> bool:
        """Whether an earlier execution was about to be sent and left no receipt."""
        return self.work.open_action == self.position

    @property
    def progress(self) -> Mapping[str, Json] | None:
        """What the action had done when it did not get to its end."""
        known = self._known
        return None if known is None else known.get("progress")

    @property
    def is_sent_once(self) -> bool:
        """Whether it must not be sent again when the outcome of a call is unknown."""
        return self.config.get("on_unknown") == "fail"

    def settled(self, failure: Failure) -> Failure:
        """Return the failure as this action takes it: an unknown outcome may be the last."""
        if not (failure.unknown and self.is_sent_once):
            return failure
        detail = f"{failure.detail}; the outcome is unknown, and on_unknown is fail"
        return replace(failure, detail=detail, transient=False)

    def after_success(self, result: Mapping[str, Any], *, now: datetime) -> Save | Finish:
        """Return the step that writes the ok receipt, with the work's end if this was the last."""
        receipts = self._with(ok=True, detail=None, now=now, result=result)
        start = self.position + 1
        if next_position(self.script.actions, receipts, start=start) is not None:
            return Save(work=self.work, receipts=receipts, is_ok=True)
        return self.script.finish(receipts, now=now)

    def after_step(self, done: Unfinished, *, now: datetime) -> Save:
        """Return the step that writes how far a stepwise action has come."""
        result = {"transient": True, "unfinished": True, "progress": done.progress}
        receipts = self._with(ok=False, detail=done.detail, now=now, result=result)
        return Save(work=self.work, receipts=receipts, is_ok=False)

    def after_failure(self, failure: Failure, *, now: datetime) -> Receipts:
        """Return the work's receipts with this failure's; what was done before stays noted."""
        result = {**failure.result, "transient": failure.transient}
        if self.progress is not None:
            result["progress"] = self.progress
        return self._with(ok=False, detail=failure.detail, now=now, result=result)

    @property
    def _known(self) -> Mapping[str, Any] | None:
        """The receipt of an earlier execution of this action."""
        return self.receipts[self.position] if self.position < len(self.receipts) else None

    def _with(
        self, *, ok: bool, detail: str | None, now: datetime, result: Mapping[str, Any]
    ) -> Receipts:
        """Return the receipts with this action's: ``action_results[i]`` belongs to action i."""
        known = self._known
        started_at, attempts = self.started_at, 1
        if known is not None and is_unfinished(known):  # one execution, however many steps
            started_at = datetime.fromisoformat(known["started_at"])
            attempts = known["attempts"]
        elif known is not None:
            attempts = known["attempts"] + 1
        new = receipt(
            self.config["type"],
            ok=ok,
            detail=detail,
            attempts=attempts,
            started_at=started_at,
            finished_at=now,
            result=result,
        )
        return [*self.receipts[: self.position], new, *self.receipts[self.position + 1 :]]


def next_position(actions: Sequence[Config], receipts: Receipts, *, start: int) -> int | None:
    """Return the first action from ``start`` on that has to be executed, None if there is none."""
    for position, config in enumerate(actions[start:], start):
        known = receipts[position] if position < len(receipts) else None
        if known is None or not is_settled(known, action=config):
            return position
    return None


def start_behind(position: int, receipts: Receipts) -> int:
    """Return where to go on after an execution: at the same action, if that is in its middle."""
    return position if is_unfinished(receipts[position]) else position + 1


def first_error(receipts: Receipts) -> str | None:
    """Return the error of work with these receipts: its first failed action's, None if all ok."""
    for position, known in enumerate(receipts, start=1):
        if not known["ok"]:
            return run_error(position, known["type"], known["detail"])
    return None


def finish(
    work: Claimed, receipts: Receipts | None, *, error: str | None, follow: Follow | None = None
) -> Finish:
    """Return the end of work: done without an error, else failed with it."""
    status: Literal["done", "failed"] = "done" if error is None else "failed"
    return Finish(work=work, receipts=receipts, status=status, error=error, follow=follow)


def failure_of(error: Exception) -> Failure:
    """Return what an exception of an action means for its work."""
    match error:
        case ActionFailed():
            return Failure(
                detail=error.detail,
                transient=error.transient,
                retry_after=error.retry_after,
                unknown=error.unknown,
                result=error.result,
            )
        case OperationalError() | InternalError() | Unavailable():
            # Connection, lock limit, deadlock, serialization, a server that takes no writes: the
            # database's passing troubles.
            return Failure(detail=str(error), transient=True)
    return Failure(detail=str(error) or type(error).__name__, transient=False)
