"""One trigger of a table by its id, as it stands there or as it was removed."""

from dataclasses import dataclass

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.runs import RunKind
from shared.domain.strict_json import Json
from shared.domain.triggers import ReadTrigger, Trigger, TriggerState, read_triggers
from shared.errors import NotFound
from shared.queries.trigger_states import list_all_states
from shared.usecases.scheduled_triggers import Broken, Ready, schedule_triggers


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTrigger:
    """A trigger that stands in its table, or whose state tells that it once did.

    ``read`` is None for a removed one; ``state`` is None without a schedule, or where it is
    missing; ``met`` is what the scheduler makes of it, None for an event and for a removed one.
    """

    table: CustomTable
    trigger_id: str
    read: ReadTrigger | None
    state: TriggerState | None
    met: Ready | Broken | None

    @property
    def event(self) -> Trigger | None:
        """The trigger, if it is a valid one on an event."""
        trigger = None if self.read is None else self.read.trigger
        return trigger if trigger is not None and trigger.schedule is None else None

    @property
    def kind(self) -> RunKind | None:
        """The kind of its runs, None if it is broken and never had a state."""
        trigger = None if self.read is None else self.read.trigger
        if trigger is not None:
            return trigger.kind
        return None if self.state is None else self.state.kind

    @property
    def enabled(self) -> bool:
        """Whether it is switched on; a removed one is not."""
        raw = None if self.read is None else self.read.raw
        return isinstance(raw, dict) and raw.get("enabled") is not False

    @property
    def error_codes(self) -> list[str]:
        """Why it is broken, as preview says it; none for a sound one."""
        if isinstance(self.met, Broken):
            return list(self.met.error_codes)
        return [] if self.read is None else self.read.error_codes

    @property
    def warnings(self) -> list[Json]:
        """What keeps it from firing although it is sound."""
        if self.read is None:
            return ["trigger_removed"]
        return [] if self.enabled else ["trigger_disabled"]


def get_known(conn: Connection, table: CustomTable, trigger_id: str) -> KnownTrigger:
    """Return a trigger of a table; raises NotFound ``trigger_not_found`` for one it never had."""
    states = list_all_states(conn, [table.id])
    state = next((one for one in states if one.trigger_id == trigger_id), None)
    read = next(
        (
            one
            for one in read_triggers(table.triggers or [], table.columns, stored=True)
            if one.trigger_id == trigger_id
        ),
        None,
    )
    if read is None and state is None:
        message = f"the table has no trigger '{trigger_id}'"
        raise NotFound(message, code="trigger_not_found")
    standing = [one for one in states if one.retired_at is None]
    met = next(
        (one for one in schedule_triggers(table, standing) if _id_of(one) == trigger_id), None
    )
    return KnownTrigger(table=table, trigger_id=trigger_id, read=read, state=state, met=met)


def _id_of(met: Ready | Broken) -> str | None:
    return met.state.trigger_id if isinstance(met, Ready) else met.read.trigger_id
