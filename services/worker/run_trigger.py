"""What a claimed run of a trigger executes: its frozen actions, on its frozen row."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from services.worker.definitions import Definition, Definitions
from services.worker.delayed import Delayed
from services.worker.execution import Connect, Performed, finish, first_error
from services.worker.steps import Finish, Receipts
from shared.actions.action import ActionContext, Config, Services
from shared.actions.registry import ACTIONS
from shared.domain.columns import cells_by_name
from shared.domain.instants import instant_text
from shared.domain.runs import MAX_ERROR, ClaimedRun, clean_text, idempotency_key
from shared.domain.strict_json import Json
from shared.domain.templates import TemplateContext

TABLE_GONE = "trigger config no longer exists"


def begin_run(run: ClaimedRun, definitions: Definitions) -> "RunScript | Finish":
    """Return what a run executes, or the end of one that must not begin."""
    if run.unreadable is not None:
        error = clean_text(f"the run cannot be read: {run.unreadable}", MAX_ERROR)
        return finish(run, None, error=error)
    if not run.table_lives:
        return finish(run, None, error=TABLE_GONE)
    definition = definitions.get(run.tenant_id, run.definition_hash)
    return RunScript(work=run, definition=definition)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunScript:
    """A run with its frozen definition."""

    work: ClaimedRun
    definition: Definition

    @property
    def actions(self) -> Sequence[Config]:
        """The settings of the actions."""
        return self.definition.actions

    def action(self, position: int) -> Performed | None:
        """Return what executes the action at ``position``, None if this release has no such."""
        config = self.actions[position]
        if "delay" in config:
            return Delayed(run=self.work, when=self.definition.trigger.get("when") or [])
        return ACTIONS.get(config["type"])

    def context(
        self, position: int, *, now: datetime, services: Services, connect: Connect
    ) -> ActionContext:
        """Return what the action at ``position`` is given when it begins ``now``."""
        run = self.work
        row = self._row()
        return ActionContext(
            tenant_id=run.tenant_id,
            work_kind=run.work_kind,
            work_id=run.id,
            table_id=run.table_id,
            record_id=run.record_id,
            depth=run.depth,
            starts=run.starts,
            template=TemplateContext(
                row=row,
                run_id=run.id,
                scheduled_for=run.scheduled_for,
                trigger_name=self.definition.trigger.get("name") or "",
                now=now,
            ),
            columns=self.definition.columns,
            about=self._event(row),
            now=now,
            idempotency_key=self._key(position),
            services=services,
            connect=connect,
            schedule_zone=self.definition.schedule_zone,
        )

    def finish(self, receipts: Receipts, *, now: datetime) -> Finish:
        """Return the end of the run: done if every action ended well."""
        return finish(self.work, receipts, error=first_error(receipts))

    def _row(self) -> dict[str, Json] | None:
        """Return the frozen cells by column name, None on a run without a row."""
        snapshot = self.work.snapshot
        return None if snapshot is None else cells_by_name(snapshot, self.definition.columns)

    def _event(self, row: dict[str, Json] | None) -> dict[str, Json]:
        """Return what a webhook tells of the run."""
        run, trigger = self.work, self.definition.trigger
        scheduled_for = instant_text(run.scheduled_for)
        record = None if run.record_id is None else {"id": run.record_id, "data": row or {}}
        return {
            "type": "trigger.fired",
            "timestamp": scheduled_for,
            "data": {
                "tenant_id": str(run.tenant_id),
                "table_id": str(run.table_id),
                "trigger": {"id": run.trigger_id, "name": trigger.get("name")},
                "run": {
                    "id": run.id,
                    "kind": run.kind,
                    "scheduled_for": scheduled_for,
                    "identity": run.identity,
                    "window_key": run.window_key,
                },
                "record": record,
            },
        }

    def _key(self, position: int) -> str:
        run = self.work
        return idempotency_key(
            tenant_id=run.tenant_id,
            table_id=run.table_id,
            trigger_id=run.trigger_id,
            record_id=run.record_id,
            identity=run.identity,
            written_at=run.scheduled_for if self.definition.keyed_by_write else None,
            position=position,
        )
