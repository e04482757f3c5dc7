"""A claimed run: its actions in order, a receipt for each, then its end or a later attempt."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import psycopg
import structlog
from psycopg import Connection
from psycopg_pool import ConnectionPool, PoolTimeout

from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.execution import (
    Execution,
    Failure,
    failure_of,
    finish,
    first_error,
    next_position,
)
from services.worker.holdings import Held, Holdings
from services.worker.server_time import ServerTime
from services.worker.steps import (
    Finish,
    HandBack,
    Intent,
    Postpone,
    Receipts,
    Save,
    ids_of,
    tell_outcome,
    write_steps,
)
from shared.actions.action import Action, ActionContext, Services
from shared.actions.failures import ActionFailed
from shared.actions.registry import ACTIONS
from shared.domain.runs import MAX_ERROR, ClaimedRun, clean_text, idempotency_key, run_error
from shared.domain.work import retry_delay_seconds
from shared.errors import AppError
from shared.observability import metrics

TABLE_GONE = "trigger config no longer exists"
EARLIER_CALL = "a worker was lost after an earlier call may have been sent"
UNKNOWN_TYPE = "this release has no such action"

_log = structlog.get_logger()


class _FencedOut(Exception):
    """Somebody else has the run: stop at once, write nothing."""


class _NotBegun(Exception):
    """Something that the action needs is not to be had just now: it costs no attempt.

    ``is_unsent``: an intent was written, and its call has not begun.
    """

    def __init__(self, reason: str, *, is_unsent: bool = False) -> None:
        super().__init__(reason)
        self.is_unsent = is_unsent


class _OutcomeUnknown(Exception):
    """The session was lost under an internal action, perhaps while it was being committed."""


class RunExecutor:
    """Executes claimed runs on the calling thread; one serves all threads of the pool."""

    def __init__(
        self,
        *,
        pool: ConnectionPool[Connection],
        committer: Committer,
        holdings: Holdings,
        definitions: Definitions,
        services: Services,
        time: ServerTime,
        may_begin: Callable[[], bool],
    ) -> None:
        self._pool = pool
        self._committer = committer
        self._holdings = holdings
        self._definitions = definitions
        self._services = services
        self._time = time
        self._may_begin = may_begin

    def execute(self, held: Held) -> None:
        """Execute a run from its first unsettled action on; never raises.

        The run ends, waits for a later attempt, is handed back, or is left to its lease.
        """
        run = held.run
        if run.starts == 1:
            late = self._time.now() - run.scheduled_for
            metrics.LATENESS_SECONDS.observe(max(late.total_seconds(), 0.0))
        with structlog.contextvars.bound_contextvars(**ids_of(run)):
            try:
                self._execute(held)
            except _FencedOut:
                metrics.LEASES_LOST.inc()
                _log.warning("run_fenced_out")
            except (_NotBegun, psycopg.OperationalError) as error:
                _log.warning("run_interrupted", reason=str(error))
                is_unsent = isinstance(error, _NotBegun) and error.is_unsent
                self._committer.submit(HandBack(run=run, is_unsent=is_unsent))
            except Exception as error:
                _log.exception("run_crashed")
                message = clean_text(str(error) or type(error).__name__, MAX_ERROR)
                self._committer.submit(finish(run, None, error=message))
            finally:
                self._holdings.drop(held)

    def _execute(self, held: Held) -> None:
        run = held.run
        if refusal := _refusal(run):
            self._committer.submit(finish(run, None, error=refusal))
            return
        definition = self._definitions.get(run.tenant_id, run.definition_hash)
        receipts: Receipts | None = run.action_results
        position: int | None = None
        while receipts is not None:
            start = 0 if position is None else position + 1
            position = next_position(definition, receipts, start=start)
            if position is None:
                self._committer.submit(finish(run, receipts, error=first_error(receipts)))
                return
            if not self._has_time(held):
                self._committer.submit(HandBack(run=run))
                return
            execution = Execution(
                run=run,
                definition=definition,
                position=position,
                receipts=receipts,
                started_at=self._time.now(),
            )
            receipts = self._perform(execution, held)

    def _has_time(self, held: Held) -> bool:
        return held.has_time_for(self._services.deadline_seconds) and self._may_begin()

    def _perform(self, execution: Execution, held: Held) -> Receipts | None:
        """Execute one action; return the receipts to go on with, None when the run is through."""
        action = ACTIONS.get(execution.config["type"])
        if action is None:
            return self._fail(execution, Failure(detail=UNKNOWN_TYPE, transient=False))
        external = action.effect(self._services) == "external"
        try:
            step = (
                self._call(execution, action, held) if external else self._apply(execution, action)
            )
        except (_FencedOut, _NotBegun):
            raise
        except _OutcomeUnknown as error:
            _log.warning("run_interrupted", reason=str(error))
            self._leave_as_it_is(execution, reason=str(error))
            return None
        except Exception as error:
            if not isinstance(error, ActionFailed | AppError | psycopg.OperationalError):
                _log.exception("action_crashed", action_type=action.type)
            metrics.ACTION_OUTCOMES.labels(type=action.type, ok="false").inc()
            return self._fail(execution, execution.settled(failure_of(error)))
        metrics.ACTION_OUTCOMES.labels(type=action.type, ok="true").inc()
        metrics.ACTION_SECONDS.labels(type=action.type).observe(self._seconds_of(execution))
        return step.receipts if isinstance(step, Save) else None

    def _apply(self, execution: Execution, action: Action) -> Save | Finish:
        """An internal action: effect, receipt and lease check in one transaction."""
        with self._session() as conn:
            try:
                with conn.transaction():
                    result = action.execute(execution.config, self._context(execution, conn))
                    step = execution.after_success(result, now=self._time.now())
                    if not write_steps(conn, [step]):
                        raise _FencedOut
            except psycopg.Error as error:
                if conn.closed:
                    raise _OutcomeUnknown(str(error)) from error
                raise
        tell_outcome(step)
        return step

    def _call(self, execution: Execution, action: Action, held: Held) -> Save | Finish:
        """An external action: intent, call, receipt, each committed before the next begins."""
        if execution.was_opened and execution.is_sent_once:
            raise ActionFailed(EARLIER_CALL, unknown=True)
        self._write(Intent(run=execution.run, position=execution.position))
        if not self._has_time(held):  # the intent may have waited for the database for long
            raise _NotBegun("too little of the lease was left", is_unsent=True)
        try:
            result = action.execute(execution.config, self._context(execution, None))
        except _NotBegun as error:  # sessions are borrowed before the call
            raise _NotBegun(str(error), is_unsent=True) from error
        step = execution.after_success(result, now=self._time.now())
        if isinstance(step, Save):
            self._write(step)
        else:
            # Nothing follows it, so nobody waits for it; unwritten, the lease brings it back.
            self._committer.submit(step)
        return step

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """Lend a session of the pool. Raises _NotBegun when there is none."""
        try:
            with self._pool.connection() as conn:
                yield conn
        except PoolTimeout as error:
            raise _NotBegun(str(error)) from error

    def _leave_as_it_is(self, execution: Execution, *, reason: str) -> None:
        """Wait for another attempt, or end the run, without a word about the action.

        To write that it failed could overwrite its receipt. Whoever claims the run next reads what
        is true.
        """
        run = execution.run
        delay = retry_delay_seconds(attempts=run.attempts, jitter=random.random())
        if delay is not None:
            self._committer.submit(Postpone(run=run, receipts=None, delay_seconds=delay))
            return
        error = run_error(execution.position + 1, execution.config["type"], reason)
        self._committer.submit(finish(run, None, error=error))

    def _fail(self, execution: Execution, failure: Failure) -> Receipts | None:
        """Wait for another attempt, or go on past the failure, or end the run."""
        run = execution.run
        delay = None
        if failure.transient:
            delay = retry_delay_seconds(
                attempts=run.attempts, jitter=random.random(), retry_after=failure.retry_after
            )
            # With the budget spent it is there to stay: whoever resumes the run passes over it.
            failure = replace(failure, transient=delay is not None)
        receipts = execution.after_failure(failure, now=self._time.now())
        if delay is not None:
            self._committer.submit(Postpone(run=run, receipts=receipts, delay_seconds=delay))
            return None
        if execution.continues:
            self._write(Save(run=run, receipts=receipts, is_ok=False))
            return receipts
        self._committer.submit(finish(run, receipts, error=first_error(receipts)))
        return None

    def _seconds_of(self, execution: Execution) -> float:
        return (self._time.now() - execution.started_at).total_seconds()

    def _write(self, step: Intent | Save) -> None:
        if not self._committer.submit(step).result():
            raise _FencedOut

    def _context(self, execution: Execution, conn: Connection | None) -> ActionContext:
        run = execution.run
        key = idempotency_key(
            tenant_id=run.tenant_id,
            table_id=run.table_id,
            trigger_id=run.trigger_id,
            record_id=run.record_id,
            identity=run.identity,
            position=execution.position,
        )
        return ActionContext(
            run=run,
            trigger=execution.definition.trigger,
            columns=execution.definition.columns,
            now=execution.started_at,
            idempotency_key=key,
            services=self._services,
            connect=self._session if conn is None else lambda: nullcontext(conn),
        )


def _refusal(run: ClaimedRun) -> str | None:
    """Return why the run ends before it begins, None if it does not."""
    if run.unreadable is not None:
        return clean_text(f"the run cannot be read: {run.unreadable}", MAX_ERROR)
    return None if run.table_lives else TABLE_GONE
