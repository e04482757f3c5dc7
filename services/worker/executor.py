"""Claimed work on a thread of the pool: from its claim to its end, or to whoever has it next."""

from collections.abc import Sequence
from datetime import datetime

import psycopg
import structlog

from services.worker.apply_change import apply_change
from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.execution import Script, finish
from services.worker.holdings import Held, Holdings
from services.worker.performer import FencedOut, NotBegun, Performer
from services.worker.run_scheduled_action import begin_action
from services.worker.run_trigger import begin_run
from services.worker.server_time import ServerTime
from services.worker.steps import Finish, HandBack, Postpone, ids_of
from services.worker.together import Member, Together
from services.worker.traces import begin_execution, tell_first_start
from shared.domain.runs import MAX_ERROR, ClaimedRun, clean_text
from shared.domain.scheduled_actions import ClaimedAction
from shared.domain.staged_changes import ApprovedChange
from shared.domain.work import Claimed
from shared.lifecycle import monotonic
from shared.observability import metrics
from shared.queries.claimed_actions import load_claimed
from shared.tracking.click_store import ClickStore

# A subject that was read so long ago is read again: claimed ahead of its turn, an action may have
# waited for a thread while its contact or its row was changed.
_FRESH_SECONDS = 1.0

_log = structlog.get_logger()


class Executor:
    """Executes claimed work on the calling thread; one serves all threads of the pool."""

    def __init__(
        self,
        *,
        performer: Performer,
        committer: Committer,
        holdings: Holdings,
        definitions: Definitions,
        clicks: ClickStore,
        time: ServerTime,
    ) -> None:
        self._performer = performer
        self._together = Together(performer, time)
        self._committer = committer
        self._holdings = holdings
        self._definitions = definitions
        self._clicks = clicks
        self._time = time

    def execute(self, held: Held) -> None:
        """Execute work from its first unsettled action on, or apply a change; never raises.

        It ends, waits for a later attempt, is handed back, or is left to its lease.
        """
        held.begun = True
        work = held.work
        self._tell_lateness(work)
        with (
            structlog.contextvars.bound_contextvars(**ids_of(work)),
            begin_execution(work) as span,
        ):
            try:
                self._execute(held)
            except FencedOut as error:
                span.fail(type(error).__name__)
                metrics.LEASES_LOST.inc()
                _log.warning("work_fenced_out")
            except (NotBegun, psycopg.OperationalError) as error:
                span.fail(type(error).__name__)
                _log.warning("work_interrupted", reason=str(error))
                is_unsent = isinstance(error, NotBegun) and error.is_unsent
                self._committer.submit(HandBack(work=work, is_unsent=is_unsent))
            except Exception as error:
                span.fail(type(error).__name__)
                _log.exception("work_crashed")
                message = clean_text(str(error) or type(error).__name__, MAX_ERROR)
                self._committer.submit(finish(work, None, error=message))
            finally:
                self._holdings.drop(held)

    def joins(self, held: Held) -> bool:
        """Whether work can be executed together with other such; the database is not asked."""
        work = held.work
        if isinstance(work, ApprovedChange):
            return False
        hash = work.definition_hash if isinstance(work, ClaimedRun | ClaimedAction) else None
        if hash is not None and self._definitions.known(work.tenant_id, hash) is None:
            return False
        return self._member(held) is not None

    def execute_together(self, group: Sequence[Held]) -> list[Held]:
        """Execute work that ``joins`` in one transaction; return what has to be executed alone."""
        members, left = [], []
        for held in group:
            held.begun = True
            member = self._member(held)
            if member is None:
                left.append(held)
            else:
                members.append(member)
        through = self._together.perform(members)
        for member in members[:through]:
            self._tell_lateness(member.held.work)
            self._holdings.drop(member.held)
        return left + [member.held for member in members[through:]]

    def _member(self, held: Held) -> Member | None:
        try:
            begun = self._begin(held)
            if isinstance(begun, Finish | Postpone):
                return None
            return self._together.member(begun, held)
        except Exception:  # executed alone, it tells why
            return None

    def _tell_lateness(self, work: Claimed) -> None:
        if work.starts == 1:
            now = self._time.now()
            late = now - _due_at(work)
            metrics.LATENESS_SECONDS.observe(max(late.total_seconds(), 0.0))
            tell_first_start(work, now=now)

    def _execute(self, held: Held) -> None:
        if isinstance(held.work, ApprovedChange):
            tell_first_start(held.work, now=self._time.now())
            with self._performer.session() as conn:
                apply_change(conn, held.work, now=self._time.now())
            return
        begun = self._begin(held)
        if isinstance(begun, Finish | Postpone):
            self._performer.end(begun)
        else:
            self._performer.perform(begun, held)

    def _begin(self, held: Held) -> Script | Finish | Postpone:
        match held.work:
            case ClaimedRun() as run:
                return begin_run(run, self._definitions)
            case ClaimedAction() as action:
                if monotonic() - held.since > _FRESH_SECONDS:
                    action = self._as_it_is_now(action)
                return begin_action(
                    action, self._definitions, clicks=self._clicks, now=self._time.now()
                )
        raise TypeError(f"a worker does not execute a {held.work.work_kind}")

    def _as_it_is_now(self, action: ClaimedAction) -> ClaimedAction:
        with self._performer.session() as conn:
            found = load_claimed(conn, [action.id], lease_token=action.lease_token)
        if not found:
            raise FencedOut
        return found[0]


def _due_at(work: Claimed) -> datetime:
    assert isinstance(work, ClaimedRun | ClaimedAction)
    return work.scheduled_for if isinstance(work, ClaimedRun) else work.execute_at
