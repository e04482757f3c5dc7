"""What follows upon the end of a scheduled action: the next step, or what an expired wait runs."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.delays import delay_of, without_delay
from shared.domain.scheduled_actions import Branch, ClaimedAction, NewAction
from shared.effects.delays import ON_EXPIRY_ALONE, after_schedule, record, timed
from shared.effects.workflow_steps import follow_up
from shared.queries.scheduled_actions import has_later_step
from shared.tracking.click_store import ClickStore


@dataclass(slots=True, kw_only=True)
class NextStep:
    """The next step of a workflow; ``branch`` is the one that a wait took."""

    action: ClaimedAction
    branch: Branch | None
    clicks: ClickStore
    _link_id: int | None = field(default=None, init=False)

    def record(self, conn: Connection) -> None:
        """Record the step, if the execution is not at its end and has not gone on before.

        A step that was passed over as failed, and is retried by hand, has been followed: judged
        anew, the branches behind it could lead the execution along a second way as well.
        """
        self._link_id = None
        execution = self.action.execution
        assert execution is not None
        if has_later_step(conn, execution.id, self.action.id):
            return
        now = server_now(conn)
        step = follow_up(conn, self.action, branch=self.branch, clicks=self.clicks, now=now)
        self._link_id = None if step is None else step.tracking_link_id
        if step is not None:
            record(conn, [step], now=now)

    def settle(self, conn: Connection) -> None:
        """Find a click that came while the next wait was being recorded."""
        if self._link_id is not None:
            tenant_id = self.action.tenant_id
            after_schedule(conn, tenant_id=tenant_id, link_id=self._link_id, clicks=self.clicks)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnExpiry:
    """The actions that run since nobody clicked, and what comes next in a workflow."""

    wait: ClaimedAction
    then: NextStep | None = None

    def record(self, conn: Connection) -> None:
        """Record them, each once."""
        now = server_now(conn)
        record(conn, self.actions(now=now), now=now)
        if self.then is not None:
            self.then.record(conn)

    def settle(self, conn: Connection) -> None:
        """Settle what comes next: none of the actions waits for a click."""
        if self.then is not None:
            self.then.settle(conn)

    def actions(self, *, now: datetime) -> list[NewAction]:
        """Return them: for the same subject, now or after a delay of their own."""
        return [
            timed(self._action(index, config, now=now), delay_of(config), now=now)
            for index, config in enumerate(self.wait.on_expire or [])
        ]

    def _action(self, index: int, config: Mapping[str, Any], *, now: datetime) -> NewAction:
        wait = self.wait
        origin = json.dumps(["on_expire", wait.origin_key, index])
        return NewAction(
            tenant_id=wait.tenant_id,
            origin_key=hashlib.sha256(origin.encode()).hexdigest(),
            execute_at=now,
            action_type=config["type"],
            action_config=without_delay(config),
            source_config=self._conditions(),
            context=self._context(),
            definition_hash=wait.definition_hash,
            line_user_id=wait.line_user_id,
            table_id=wait.table_id,
            record_id=wait.record_id,
            run_id=wait.run_id,
            event_id=wait.event_id,
            rule_id=wait.rule_id,
            depth=wait.depth,
        )

    def _conditions(self) -> Mapping[str, Any] | None:
        """Return what is to hold again for those that say so."""
        conditions = self.wait.source_config
        if conditions is None:
            return None
        return {key: value for key, value in conditions.items() if key != ON_EXPIRY_ALONE}

    def _context(self) -> Mapping[str, Any]:
        """Return what their tokens stand for: in a workflow, what those of its steps do."""
        if self.wait.execution is None:
            return self.wait.context
        return {"event": self.wait.execution.context, "links": self.wait.links}
