"""What a renamed column means for the triggers that name it: they are rewritten, not broken."""

from collections.abc import Callable, Mapping
from uuid import UUID

from shared.domain.strict_json import Json
from shared.domain.templates import rename_row_tokens

Renames = Mapping[str, str]
"""Old name to new name; all are applied at once, so that two columns may swap their names."""


def rename_columns(triggers: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return the stored triggers of a table with its columns under their new names.

    Rewritten are ``schedule.column``, ``when``, row tokens, and the cells that actions write into
    this table, those too that run when a delay expires. A broken trigger is rewritten as far as it
    can be read.
    """
    return [_trigger(trigger, renames, table_id) for trigger in triggers]


def rename_written_columns(triggers: list[Json], renames: Renames, *, table_id: UUID) -> list[Json]:
    """Return the stored triggers of another table, after renames in the table ``table_id``.

    They name its columns only in the records that they create in it.
    """
    return [
        _in_list(
            trigger,
            "actions",
            lambda action: _with_expiry(action, lambda each: _created(each, renames, table_id)),
        )
        for trigger in triggers
    ]


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
    action = _created(action, renames, table_id)
    if isinstance(action, dict) and action.get("type") == "update_record":
        return _with_cells(action, renames)
    return action


def _created(action: Json, renames: Renames, table_id: UUID) -> Json:
    is_created = isinstance(action, dict) and action.get("type") == "create_record"
    if is_created and _uuid(action.get("table_id")) == table_id:
        return _with_cells(action, renames)
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
