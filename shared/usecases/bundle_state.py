"""What stands of that which a bundle names."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar
from uuid import UUID

from psycopg import Connection

from shared.domain.bundle_references import named_tables
from shared.domain.bundles import Kind, Line
from shared.domain.planned import Stored
from shared.domain.strict_json import Json
from shared.domain.triggers import ScheduleKind, TriggerState
from shared.queries.commands import list_commands_by_name
from shared.queries.custom_tables import list_tables_by_id
from shared.queries.table_names import list_table_names
from shared.queries.trigger_rules import list_rules_by_name
from shared.queries.trigger_states import list_all_states
from shared.queries.workflows import list_workflows_by_name

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Whose bundle it is: a tenant's, or that of one of its channels."""

    tenant_id: UUID
    channel_id: UUID | None


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a plan is made against; ``states`` are all that the stored tables ever had."""

    stored: Stored
    states: tuple[TriggerState, ...]

    def marks(self, lines: Iterable[Line]) -> Json:
        """Return, as JSON, what is another when anything of it has changed."""
        stored = self.stored
        ids = {name: str(table_id) for table_id, name in stored.names.items()}
        referred = {name for line in lines for _, name in named_tables(line.body)}
        return [
            sorted([str(table.id), table.revision] for table in stored.tables.values()),
            sorted([rule.id, rule.revision] for rule in stored.rules.values()),
            sorted([one.id, one.version] for one in stored.workflows.values()),
            sorted([command.id, command.revision] for command in stored.commands.values()),
            sorted([name, ids.get(name, "")] for name in referred),
        ]


def tables_named_by(lines: Iterable[Line]) -> set[str]:
    """Return the names of the tables that lines are about, or whose triggers they are."""
    keys: dict[Kind, str] = {"table": "name", "trigger": "table"}
    return {line.body[keys[line.kind]] for line in lines if line.kind in keys}


def read_state(conn: Connection, reach: Reach, lines: Sequence[Line]) -> State:
    """Return what stands of that which the lines name, within reach."""
    listed = list_table_names(conn, reach.tenant_id, reach.channel_id)
    count = Counter(name for _, name in listed)
    wanted = tables_named_by(lines)
    ids = [table_id for table_id, name in listed if name in wanted and count[name] == 1]
    states = tuple(list_all_states(conn, ids))

    def named(
        kind: Kind, read: Callable[[Connection, UUID, Sequence[str]], list[Row]]
    ) -> list[Row]:
        names = [line.body["name"] for line in lines if line.kind == kind]
        return read(conn, reach.tenant_id, names) if names else []

    stored = Stored(
        tables={table.name: table for table in list_tables_by_id(conn, ids)},
        names={table_id: name for table_id, name in listed if count[name] == 1},
        ambiguous={name for name in count if count[name] > 1},
        kinds=_kinds(states),
        rules={rule.name: rule for rule in named("trigger_rule", list_rules_by_name)},
        workflows={one.name: one for one in named("workflow", list_workflows_by_name)},
        commands={command.name: command for command in named("command", list_commands_by_name)},
    )
    return State(stored=stored, states=states)


def _kinds(states: Iterable[TriggerState]) -> dict[UUID, dict[str, ScheduleKind]]:
    kinds: dict[UUID, dict[str, ScheduleKind]] = defaultdict(dict)
    for state in states:
        kinds[state.table_id][state.trigger_id] = state.kind
    return kinds
