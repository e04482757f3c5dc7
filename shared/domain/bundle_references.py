"""Tables in the actions of a bundle: by name, since an id means nothing in another tenant.

``table_id`` of create_record and of both sides of materialize_slots is stored; a bundle says
``table`` in its place.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from uuid import UUID

from shared.domain.delays import actions_within
from shared.domain.faults import child
from shared.domain.strict_json import Json
from shared.domain.workflows import actions_in

_ID = "table_id"
_NAME = "table"
_HOLDERS: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "create_record": ((),),
    "materialize_slots": (("roster",), ("target",)),
}
"""Where an action of a type names tables: in itself, or in members of its own."""


def with_names(body: Json, names: Mapping[UUID, str]) -> Json:
    """Return a body with the tables of its actions by name, where ``names`` has them.

    A body is that of a trigger, rule or workflow, of whatever shape.
    """
    return _swapped(body, _ID, _NAME, lambda value: names.get(_uuid(value)))


def with_ids(body: Json, ids: Mapping[str, UUID]) -> Json:
    """Return a body with the tables of its actions by id, where ``ids`` has them."""

    def identified(value: Json) -> str | None:
        return str(ids[value]) if isinstance(value, str) and value in ids else None

    return _swapped(body, _NAME, _ID, identified)


def named_tables(body: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Give the names of tables in the actions of a body, each with its pointer."""
    for pointer, outer in _actions(body):
        for inner, action in actions_within(outer):
            for place, holder in _holders(action):
                name = holder.get(_NAME)
                if isinstance(name, str) and _ID not in holder:
                    yield f"{pointer}{inner}{place}/{_NAME}", name


def _actions(body: Mapping[str, Json]) -> Iterator[tuple[str, Json]]:
    actions = body.get("actions")
    if isinstance(actions, list):
        yield from ((child("/actions", index), action) for index, action in enumerate(actions))
    for pointer, action in actions_in(body.get("nodes")):
        yield f"/nodes{pointer}", action


def _holders(action: Json) -> Iterator[tuple[str, dict[str, Json]]]:
    kind = action.get("type") if isinstance(action, dict) else None
    for path in _HOLDERS.get(kind, ()) if isinstance(kind, str) else ():
        holder = action
        for key in path:
            holder = holder.get(key)
        if isinstance(holder, dict):
            yield "".join(f"/{key}" for key in path), holder


def _swapped(body: Json, old: str, new: str, convert: Callable[[Json], str | None]) -> Json:
    """Return a body in which ``old`` is ``new`` wherever its value can be converted.

    It is a copy if anything is: most bodies name no table.
    """
    if not any(old in holder for holder in _all_holders(body)):
        return body
    copied = deepcopy(body)
    for holder in _all_holders(copied):
        value = convert(holder.get(old))
        if value is not None and new not in holder:
            _replace(holder, old, new, value)
    return copied


def _all_holders(body: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for _, outer in _actions(body):
        for _, action in actions_within(outer):
            for _, holder in _holders(action):
                yield holder


def _replace(holder: dict[str, Json], old: str, new: str, value: str) -> None:
    """Put a member in the place of another."""
    members = [(new, value) if key == old else (key, kept) for key, kept in holder.items()]
    holder.clear()
    holder.update(members)


def _uuid(text: Json) -> UUID:
    try:
        return UUID(text) if isinstance(text, str) else UUID(int=0)
    except ValueError:
        return UUID(int=0)
