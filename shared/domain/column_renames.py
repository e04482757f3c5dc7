"""What a renamed column means for whatever names it: it is rewritten, not broken."""

from collections.abc import Callable, Mapping
from uuid import UUID

from shared.domain.strict_json import Json
from shared.domain.templates import rename_row_tokens
from shared.domain.workflows import LISTS

Renames = Mapping[str, str]
"""Old name to new name; all are applied at once, so that two columns may swap their names."""


def rename_columns(triggers: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return the stored triggers of a table with its columns under their new names.

    Rewritten are ``schedule.column``, ``when``, row tokens, and what ``rename_in_actions`` does. A
    broken trigger is rewritten as far as it can be read.
    """
    return [_trigger(trigger, renames, table_id) for trigger in triggers]


def rename_written_columns(triggers: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return the stored triggers of another table, after renames in the table ``table_id``.

    They name its columns only in their actions.
    """
    return [
        _in_list(trigger, "actions", lambda action: _in_action(action, renames, table_id))
        for trigger in triggers
    ]


def rename_in_actions(actions: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return actions, wherever they stand, after renames in the table ``table_id``.

    Rewritten are the cells of records that they create in it, and the columns of the roster and the
    slots that they name in it; of those too that run when a delay expires.
    """
    return [_in_action(action, renames, table_id) for action in actions]


def rename_in_nodes(nodes: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return the nodes of a workflow with their actions as ``rename_in_actions`` rewrites them."""
    return [_in_node(node, renames, table_id) for node in nodes]


def _in_node(node: Json, renames: Renames, table_id: UUID) -> Json:
    if not isinstance(node, dict):
        return node
    if node.get("type") == "action" and "action" in node:
        return {**node, "action": _in_action(node["action"], renames, table_id)}
    for key in LISTS.get(str(node.get("type")), ()):
        node = _in_list(node, key, lambda inner: _in_node(inner, renames, table_id))
    return node


def _in_action(action: Json, renames: Renames, table_id: UUID) -> Json:
    return _with_expiry(action, lambda each: _elsewhere(each, renames, table_id))


def _trigger(trigger: Json, renames: Renames, table_id: UUID) -> Json:
    trigger = _in_list(
        trigger,
        "actions",
        lambda action: _with_expiry(
            rename_row_tokens(action, renames), lambda each: _written(each, renames, table_id)
        ),
    )
    trigger = _in_list(trigger, "when", lambda predicate: _named(predicate, renames))
    if isinstance(trigger, dict) and "schedule" in trigger:
        return {**trigger, "schedule": _named(trigger["schedule"], renames)}
    return trigger


def _named(value: Json, renames: Renames) -> Json:
    """Return a schedule or predicate with its ``column`` under the new name."""
    column = value.get("column") if isinstance(value, dict) else None
    if isinstance(column, str) and column in renames:
        return {**value, "column": renames[column]}
    return value


def _with_expiry(action: Json, change: Callable[[Json], Json]) -> Json:
    """Return an action changed, and changed alike what runs when its delay expires."""
    if isinstance(action, dict) and isinstance(action.get("delay"), dict):
        action = {**action, "delay": _in_list(action["delay"], "on_expire", change)}
    return change(action)


def _written(action: Json, renames: Renames, table_id: UUID) -> Json:
    action = _elsewhere(action, renames, table_id)
    if isinstance(action, dict) and action.get("type") == "update_record":
        return _with_cells(action, renames)
    return action


def _elsewhere(action: Json, renames: Renames, table_id: UUID) -> Json:
    """Return an action with the columns that it names of a table by the table's id renamed."""
    match action:
        case {"type": "create_record", "table_id": named} if _uuid(named) == table_id:
            return _with_cells(action, renames)
        case {"type": "materialize_slots"}:
            return _slots(action, renames, table_id)
        case _:
            return action


def _slots(action: dict[str, Json], renames: Renames, table_id: UUID) -> dict[str, Json]:
    """Return an action whose roster and target say, key by key, how their columns are called."""
    for part in ("roster", "target"):
        named = action.get(part)
        if isinstance(named, dict) and _uuid(named.get("table_id")) == table_id:
            renamed = {
                key: renames.get(name, name) if isinstance(name, str) else name
                for key, name in named.items()
            }
            renamed["table_id"] = named["table_id"]
            whole = _in_list(renamed, "when", lambda predicate: _named(predicate, renames))
            action = {**action, part: whole}
    return action


def _with_cells(action: dict[str, Json], renames: Renames) -> dict[str, Json]:
    data = action.get("data")
    if not isinstance(data, dict):
        return action
    return {**action, "data": {renames.get(name, name): cell for name, cell in data.items()}}


def _uuid(text: Json) -> UUID | None:
    try:
        return UUID(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _in_list(owner: Json, key: str, change: Callable[[Json], Json]) -> Json:
    if isinstance(owner, dict) and isinstance(owner.get(key), list):
        return {**owner, key: [change(item) for item in owner[key]]}
    return owner
