"""Several internal actions in one transaction: each alone costs four round trips and a commit.

Nothing changes in what holds: effects, receipts and lease checks commit together or not at all, and
a failure undoes all of them, whereupon each is performed alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from psycopg import Connection

from services.worker.execution import Execution, Performed, Script, next_position
from services.worker.holdings import Held
from services.worker.performer import (
    FencedOut,
    OutcomeUnknown,
    Performer,
    complete,
    unknown_when_lost,
)
from services.worker.server_time import ServerTime
from services.worker.steps import Finish, Save, ids_of, tell_outcome, write_steps
from services.worker.traces import OK, begin_action, begin_execution
from shared.actions.action import ActionContext, Unfinished
from shared.lifecycle import monotonic
from shared.observability.spans import Span

# So long a transaction takes in further actions; what other sessions wait for is held no longer.
_SECONDS = 0.25
# After a failure each gets its own transaction for a while: what fails is likely to do so again,
# and two that wait for each other's rows in a circle would do that again.
_APART_SECONDS = 10.0

_log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """Work whose last action is internal, and all that is left."""

    script: Script
    held: Held
    action: Performed
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Done:
    member: Member
    execution: Execution
    context: ActionContext
    step: Save | Finish
    spans: tuple[Span, Span]


class Together:
    """Performs what stays in our database together; one serves all threads of the pool."""

    def __init__(self, performer: Performer, time: ServerTime) -> None:
        self._performer = performer
        self._time = time
        self._apart_until = 0.0

    def member(self, script: Script, held: Held) -> Member | None:
        """Return work as a member of a group, None if it must be performed alone."""
        position = next_position(script.actions, script.work.action_results, start=0)
        if position is None or position + 1 < len(script.actions):
            return None
        action = script.action(position)
        if action is None or not self._performer.stays_here(action):
            return None
        return Member(script=script, held=held, action=action, position=position)

    def perform(self, members: Sequence[Member]) -> int:
        """Perform several in one transaction; never raises.

        Return how many of them, from the first, it is through with: each of the others is to be
        performed alone.
        """
        is_time = all(self._performer.has_time(member.held) for member in members)
        if not members or not is_time or monotonic() < self._apart_until:
            return 0
        try:
            return self._perform(members)
        except OutcomeUnknown as error:
            _log.warning("work_interrupted", reason=str(error))
            for member in members:
                self._performer.leave_as_it_is(self._execution(member), reason=str(error))
            return len(members)
        except Exception as error:
            self._apart_until = monotonic() + _APART_SECONDS
            _log.debug("performed_apart", reason=str(error))
            return 0

    def _perform(self, members: Sequence[Member]) -> int:
        began = monotonic()
        done: list[_Done] = []
        with self._performer.session() as conn:
            with unknown_when_lost(conn), conn.transaction():
                for member in members:
                    if monotonic() - began > _SECONDS:
                        break
                    done.append(self._do(member, conn))
                if len(write_steps(conn, [each.step for each in done])) < len(done):
                    raise FencedOut
            for each in done:
                tell_outcome(each.step)
                complete(each.context, conn, each.step)
                self._performer.count_ok(each.execution, each.member.action)
                for span in each.spans:
                    span.end()
        return len(done)

    def _do(self, member: Member, conn: Connection) -> _Done:
        execution = self._execution(member)
        context = self._performer.context(execution, conn)
        # Should the transaction fail, each is performed alone, and tells of that.
        with (
            structlog.contextvars.bound_contextvars(**ids_of(execution.work)),
            begin_execution(execution.work, kept_open=True) as whole,
            begin_action(execution, member.action, kept_open=True) as own,
        ):
            result = member.action.execute(execution.config, context)
            own.set(OK)
        assert not isinstance(result, Unfinished)  # none that is stepwise is a member
        step = execution.after_success(result, now=self._time.now())
        return _Done(
            member=member, execution=execution, context=context, step=step, spans=(own, whole)
        )

    def _execution(self, member: Member) -> Execution:
        return Execution(
            script=member.script,
            position=member.position,
            receipts=member.script.work.action_results,
            started_at=self._time.now(),
        )
