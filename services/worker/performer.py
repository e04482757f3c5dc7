"""The one way in which actions are performed: in order, a receipt for each, then the end.

An internal action commits with its receipt; an external one is an intent, a call and a receipt. A
passing failure lets the work wait in the database for a later attempt.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import psycopg
import structlog
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from services.worker.committer import Committer
from services.worker.execution import (
    Execution,
    Failure,
    Performed,
    Script,
    failure_of,
    finish,
    first_error,
    next_position,
    start_behind,
)
from services.worker.holdings import Held
from services.worker.server_time import ServerTime
from services.worker.steps import (
    Finish,
    HandBack,
    Intent,
    Postpone,
    Receipts,
    Save,
    tell_outcome,
    write_steps,
)
from services.worker.traces import ERROR, OK, RETRY, begin_action
from shared.actions.action import ActionContext, Services, Unfinished
from shared.actions.failures import ActionFailed
from shared.domain.runs import run_error
from shared.domain.strict_json import Json
from shared.domain.work import MAX_RETRIES, Claimed, retry_delay_seconds
from shared.errors import AppError
from shared.observability import metrics
from shared.observability.spans import NOTHING, Span

EARLIER_CALL = "a worker was lost after an earlier call may have been sent"
UNKNOWN_TYPE = "this release has no such action"

_log = structlog.get_logger()


class FencedOut(Exception):
    """Somebody else has the work: stop at once, write nothing."""


class NotBegun(Exception):
    """Something that the action needs is not to be had just now: it costs no attempt.

    ``is_unsent``: an intent was written, and its call has not begun.
    """

    def __init__(self, reason: str, *, is_unsent: bool = False) -> None:
        super().__init__(reason)
        self.is_unsent = is_unsent


class OutcomeUnknown(Exception):
    """The session was lost under an internal action, perhaps while it was being committed."""


class Performer:
    """Performs what claimed work has to do, on the calling thread; one serves all threads."""

    def __init__(
        self,
        *,
        pool: ConnectionPool[Connection],
        committer: Committer,
        services: Services,
        time: ServerTime,
        may_begin: Callable[[], bool],
        max_retries: int = MAX_RETRIES,
    ) -> None:
        self._pool = pool
        self._committer = committer
        self._services = services
        self._time = time
        self._may_begin = may_begin
        self._max_retries = max_retries

    def perform(self, script: Script, held: Held) -> None:
        """Perform what is not settled yet: the work ends, waits, or is handed back between actions.

        Raises FencedOut, NotBegun, ``psycopg.OperationalError``.
        """
        receipts: Receipts | None = script.work.action_results
        position: int | None = None
        while receipts is not None:
            start = 0 if position is None else start_behind(position, receipts)
            position = next_position(script.actions, receipts, start=start)
            if position is None:
                self.end(script.finish(receipts, now=self._time.now()))
                return
            if not self.has_time(held):
                # At its first start there is no earlier call that an intent could stand for.
                back = HandBack(work=script.work, is_unsent=script.work.starts == 1)
                self._committer.submit(back, awaited=False)
                return
            execution = Execution(
                script=script, position=position, receipts=receipts, started_at=self._time.now()
            )
            receipts = self._execute(execution, held)

    def end(self, step: Finish | Postpone) -> None:
        """Write the last step of work, and do what is left once that is committed.

        Nobody waits for it where nothing is: unwritten, the lease brings the work back.
        """
        follow = step.follow if isinstance(step, Finish) else None
        written = self._committer.submit(step, awaited=follow is not None)
        if follow is not None and written.result():
            with _told(), self.session() as conn:
                follow.settle(conn)

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Lend a session of the pool. Raises NotBegun when there is none."""
        try:
            with self._pool.connection() as conn:
                yield conn
        except PoolTimeout as error:
            raise NotBegun(str(error)) from error

    def has_time(self, held: Held) -> bool:
        """Whether an action may begin, and can end within the lease."""
        return held.has_time_for(self._services.deadline_seconds) and self._may_begin()

    def stays_here(self, action: Performed) -> bool:
        """Whether an action stays in our database, and takes one transaction."""
        return action.effect(self._services) == "internal"

    def count_ok(self, execution: Execution, action: Performed) -> None:
        """Count an action that ended well."""
        seconds = (self._time.now() - execution.started_at).total_seconds()
        metrics.ACTION_OUTCOMES.labels(type=action.type, ok="true").inc()
        metrics.ACTION_SECONDS.labels(type=action.type).observe(seconds)

    def _execute(self, execution: Execution, held: Held) -> Receipts | None:
        """Execute one action; return the receipts to go on with, None when the work is through."""
        action = execution.script.action(execution.position)
        if action is None:
            return self._fail(execution, Failure(detail=UNKNOWN_TYPE, transient=False))
        with begin_action(execution, action) as span:
            return self._attempt(execution, action, held, span)

    def _attempt(
        self, execution: Execution, action: Performed, held: Held, span: Span
    ) -> Receipts | None:
        try:
            step = self._do(execution, action, held)
        except (FencedOut, NotBegun):
            raise
        except OutcomeUnknown as error:
            span.fail(type(error).__name__)
            _log.warning("work_interrupted", reason=str(error))
            self.leave_as_it_is(execution, reason=str(error))
            return None
        except Exception as error:
            span.fail(type(error).__name__)
            if not isinstance(error, ActionFailed | AppError | psycopg.OperationalError):
                _log.exception("action_crashed", action_type=action.type)
            metrics.ACTION_OUTCOMES.labels(type=action.type, ok="false").inc()
            return self._fail(execution, execution.settled(failure_of(error)), span)
        if isinstance(step, Finish) or step.is_ok:
            span.set(OK)
            self.count_ok(execution, action)
        return step.receipts if isinstance(step, Save) else None

    def _do(self, execution: Execution, action: Performed, held: Held) -> Save | Finish:
        if action.effect(self._services) == "external":
            return self._call(execution, action, held)
        return self._apply(execution, action)

    def _apply(self, execution: Execution, action: Performed) -> Save | Finish:
        """An internal action, or a step: effect, receipt and lease check in one transaction."""
        with self.session() as conn:
            context = self.context(execution, conn)
            with unknown_when_lost(conn), conn.transaction():
                step = self._step_after(execution, action.execute(execution.config, context))
                if not write_steps(conn, [step]):
                    raise FencedOut
            tell_outcome(step)
            complete(context, conn, step)
        return step

    def _step_after(
        self, execution: Execution, result: dict[str, Json] | Unfinished
    ) -> Save | Finish:
        if isinstance(result, Unfinished):
            return execution.after_step(result, now=self._time.now())
        return execution.after_success(result, now=self._time.now())

    def _call(self, execution: Execution, action: Performed, held: Held) -> Save | Finish:
        """An external action: intent, call, receipt, each committed before the next begins."""
        if execution.was_opened and execution.is_sent_once:
            raise ActionFailed(EARLIER_CALL, unknown=True)
        if not execution.was_opened:  # else the claim has noted it, or an earlier execution
            self._write(Intent(work=execution.work, position=execution.position))
        if not self.has_time(held):  # the intent may have waited for the database for long
            raise NotBegun("too little of the lease was left", is_unsent=True)
        try:
            result = action.execute(execution.config, self.context(execution, None))
            assert not isinstance(result, Unfinished)
        except NotBegun as error:  # sessions are borrowed before the call
            raise NotBegun(str(error), is_unsent=True) from error
        step = execution.after_success(result, now=self._time.now())
        if isinstance(step, Save):
            self._write(step)
        else:
            self.end(step)
        return step

    def leave_as_it_is(self, execution: Execution, *, reason: str) -> None:
        """Wait for another attempt, or end the work, without a word about the action.

        To write that it failed could overwrite its receipt. Whoever claims the work next reads what
        is true.
        """
        work = execution.work
        delay = self._retry_delay(work)
        if delay is not None:
            self._postpone(execution, None, delay_seconds=delay)
            return
        error = run_error(execution.position + 1, execution.config["type"], reason)
        self._committer.submit(finish(work, None, error=error), awaited=False)

    def _fail(
        self, execution: Execution, failure: Failure, span: Span = NOTHING
    ) -> Receipts | None:
        """Wait for another attempt, or go on past the failure, or end the work."""
        work = execution.work
        delay = None
        if failure.transient:
            delay = self._retry_delay(work, retry_after=failure.retry_after)
            # With the budget spent it is there to stay: whoever resumes the work passes over it.
            failure = replace(failure, transient=delay is not None)
        receipts = execution.after_failure(failure, now=self._time.now())
        span.set(ERROR if delay is None else RETRY)
        if delay is not None:
            self._postpone(execution, receipts, delay_seconds=delay)
            return None
        if execution.continues:
            self._write(Save(work=work, receipts=receipts, is_ok=False))
            return receipts
        ended = finish(work, receipts, error=first_error(receipts))
        self._committer.submit(ended, awaited=False)
        return None

    def _postpone(
        self, execution: Execution, receipts: Receipts | None, *, delay_seconds: float
    ) -> None:
        step = Postpone(
            work=execution.work,
            receipts=receipts,
            delay_seconds=delay_seconds,
            action_type=execution.config["type"],
        )
        self._committer.submit(step, awaited=False)

    def _retry_delay(self, work: Claimed, *, retry_after: float | None = None) -> float | None:
        return retry_delay_seconds(
            attempts=work.attempts,
            jitter=random.random(),
            retry_after=retry_after,
            max_retries=self._max_retries,
        )

    def _write(self, step: Intent | Save) -> None:
        if not self._committer.submit(step).result():
            raise FencedOut

    def context(self, execution: Execution, conn: Connection | None) -> ActionContext:
        """Return what an action is given; ``conn`` is the session of an internal one."""
        context = execution.script.context(
            execution.position,
            now=execution.started_at,
            services=self._services,
            connect=self.session if conn is None else lambda: nullcontext(conn),
        )
        progress = execution.progress
        return context if progress is None else replace(context, progress=progress)


@contextmanager
def unknown_when_lost(conn: Connection) -> Iterator[None]:
    """Raise OutcomeUnknown when the session was lost under a transaction."""
    try:
        yield
    except psycopg.Error as error:
        if conn.closed:
            raise OutcomeUnknown(str(error)) from error
        raise


def complete(context: ActionContext, conn: Connection, step: Save | Finish) -> None:
    """Do what was left to be done once the receipt of an internal action is committed."""
    for left in context.after_commit:
        with _told():
            left()
    if isinstance(step, Finish) and step.follow is not None:
        with _told():
            step.follow.settle(conn)


@contextmanager
def _told() -> Iterator[None]:
    """Tell what fails once a receipt is committed: it makes no failure of the action.

    What is left by then only saves time: a click that was missed is found at the deadline.
    """
    try:
        yield
    except Exception as error:
        _log.warning("follow_up_failed", reason=str(error))
