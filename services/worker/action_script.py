"""What a scheduled action executes: its one action, on its subject as it is now."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from services.worker.definitions import Definition
from services.worker.execution import Connect, Performed, finish, first_error
from services.worker.steps import Finish, Follow, Receipts
from shared.actions.action import ActionContext, Config, Services
from shared.actions.registry import ACTIONS
from shared.domain.columns import cells_by_name
from shared.domain.instants import instant_text
from shared.domain.line_users import cells
from shared.domain.scheduled_actions import ClaimedAction
from shared.domain.strict_json import Json
from shared.domain.templates import TemplateContext
from shared.domain.tracking import link_url


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionScript:
    """A scheduled action; ``definition`` is that of the run that it came from, if it did.

    ``follow`` is what comes next in its workflow.
    """

    work: ClaimedAction
    definition: Definition | None
    follow: Follow | None

    @property
    def actions(self) -> Sequence[Config]:
        """The settings of the one action."""
        return [{**self.work.action_config, "type": self.work.action_type}]

    def action(self, position: int) -> Performed | None:
        """Return what executes the action, None if this release has no such."""
        return ACTIONS.get(self.work.action_type)

    def context(
        self, position: int, *, now: datetime, services: Services, connect: Connect
    ) -> ActionContext:
        """Return what the action is given when it begins ``now``."""
        action = self.work
        return ActionContext(
            tenant_id=action.tenant_id,
            work_kind=action.work_kind,
            work_id=action.id,
            table_id=action.table_id,
            record_id=action.record_id,
            depth=action.depth,
            starts=action.starts,
            template=self._template(services.public_url, now=now),
            columns=() if self.definition is None else self.definition.columns,
            about=self._event(),
            now=now,
            idempotency_key=_key(action),
            services=services,
            connect=connect,
            schedule_zone="UTC" if self.definition is None else self.definition.schedule_zone,
        )

    def finish(self, receipts: Receipts, *, now: datetime) -> Finish:
        """Return the end: what follows does so upon an ok, or a failure to be passed over."""
        return finish(self.work, receipts, error=first_error(receipts), follow=self.follow)

    def _template(self, public_url: str, *, now: datetime) -> TemplateContext:
        action = self.work
        run: dict[str, Any] = action.context.get("run") or {}
        scheduled_for = run.get("scheduled_for")
        return TemplateContext(
            row=self._row(),
            run_id=run.get("id", action.id),
            scheduled_for=(
                datetime.fromisoformat(scheduled_for) if scheduled_for else action.execute_at
            ),
            trigger_name=self._trigger_name(),
            now=now,
            event=event_of(action),
            line_user=None if action.line_user is None else cells(action.line_user),
            links={name: link_url(public_url, token) for name, token in action.links.items()},
        )

    def _trigger_name(self) -> str:
        """Return the name of the trigger or the rule that led here, empty without one."""
        if self.definition is not None:
            return self.definition.trigger.get("name") or ""
        return self.work.context.get("rule_name") or ""

    def _row(self) -> dict[str, Json] | None:
        """Return the cells of the record as it is now, under the names that were frozen."""
        record, definition = self.work.record, self.definition
        if record is None or definition is None:
            return None
        return cells_by_name(record.data, definition.columns)

    def _event(self) -> dict[str, Json]:
        """Return what a webhook tells of a scheduled action."""
        action = self.work
        row = self._row()
        return {
            "type": "action.due",
            "timestamp": instant_text(action.execute_at),
            "data": {
                "tenant_id": str(action.tenant_id),
                "table_id": None if action.table_id is None else str(action.table_id),
                "scheduled_action": _about_action(action),
                "line_user": _about_contact(action),
                "record": None if row is None else {"id": action.record_id, "data": row},
                "event": _about_event(action),
            },
        }


def event_of(action: ClaimedAction) -> dict[str, Json] | None:
    """Return what the event told that led to an action, None where no event did.

    A workflow's event is what its execution was given at the start.
    """
    if action.execution is not None:
        return action.execution.context
    event: dict[str, Json] | None = action.context.get("event")
    return event


def _about_action(action: ClaimedAction) -> dict[str, Json]:
    about: dict[str, Json] = {
        "id": action.id,
        "execute_at": instant_text(action.execute_at),
        "branch": action.branch,
        "run_id": action.run_id,
        "workflow": None,
    }
    if (execution := action.execution) is not None:
        about["workflow"] = {
            "id": execution.workflow_id,
            "version": execution.workflow_version,
            "execution_id": str(execution.id),
            "node_path": execution.node_path,
        }
    return about


def _about_contact(action: ClaimedAction) -> Json:
    contact = action.line_user
    if contact is None:
        return None
    return {
        "id": contact.id,
        "external_id": contact.external_id,
        "display_name": contact.display_name,
        "attributes": contact.attributes,
    }


def _about_event(action: ClaimedAction) -> Json:
    data = event_of(action)
    if data is None:
        return None
    return {"id": action.event_id, "name": action.context.get("event_name"), "data": data}


def _key(action: ClaimedAction) -> str:
    """Return the key of its outgoing requests: another one once an edit changed what is sent."""
    parts: list[Json] = ["scheduled_action", str(action.tenant_id), action.origin_key]
    if action.edits:
        parts.append(action.edits)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
