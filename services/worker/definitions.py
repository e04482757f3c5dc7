"""Frozen definitions of runs, read once: a worker meets the same one thousands of times."""

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg_pool import ConnectionPool

from shared.domain.columns import Column, column_from_json
from shared.errors import AppError
from shared.queries.definitions import list_definitions

# Characters of JSON: by number alone, a tenant with large triggers would fill our memory.
_KEPT = 8_000_000
_FORM = 1


class UnknownForm(AppError):
    """A definition was frozen by a release that this one does not understand."""

    code = "definition_form_unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What a run executes: the trigger as it was stored, and the columns its row had.

    ``keyed_by_write``: the keys of its calls have the instant of the write that fired it.
    """

    trigger: Mapping[str, Any]
    columns: tuple[Column, ...]
    keyed_by_write: bool = False

    @property
    def actions(self) -> list[dict[str, Any]]:
        """The actions' settings, in order."""
        actions: list[dict[str, Any]] = self.trigger["actions"]
        return actions

    @property
    def schedule_zone(self) -> str:
        """The name of the schedule's zone; UTC where it has none."""
        return str((self.trigger.get("schedule") or {}).get("timezone", "UTC"))


class Definitions:
    """The definitions used last; a definition never changes, so nothing here goes stale."""

    def __init__(self, pool: ConnectionPool[Connection]) -> None:
        self._pool = pool
        self._lock = threading.Lock()
        self._known: OrderedDict[tuple[UUID, bytes], tuple[Definition, int]] = OrderedDict()
        self._size = 0

    def get(self, tenant_id: UUID, digest: bytes) -> Definition:
        """Return the definition under its hash. Raises UnknownForm, or what the database raises."""
        if known := self.known(tenant_id, digest):
            return known
        key = (tenant_id, digest)
        with self._pool.connection() as conn:
            body = list_definitions(conn, [key])[key]
        definition = _read(body)
        self._keep(key, definition, size=len(json.dumps(body)))
        return definition

    def known(self, tenant_id: UUID, digest: bytes) -> Definition | None:
        """Return the definition if it was read before."""
        key = (tenant_id, digest)
        with self._lock:
            if known := self._known.get(key):
                self._known.move_to_end(key)
                return known[0]
        return None

    def _keep(self, key: tuple[UUID, bytes], definition: Definition, *, size: int) -> None:
        with self._lock:
            if key in self._known:  # another thread was first
                return
            self._known[key] = definition, size
            self._size += size
            while self._size > _KEPT and len(self._known) > 1:
                _, (_, dropped) = self._known.popitem(last=False)
                self._size -= dropped


def _read(body: Mapping[str, Any]) -> Definition:
    if body["v"] != _FORM:
        raise UnknownForm(f"the frozen definition has form {body['v']}, this release reads {_FORM}")
    columns = tuple(column_from_json(column) for column in body["columns"])
    return Definition(
        trigger=body["trigger"],
        columns=columns,
        keyed_by_write=body.get("keyed_by_write", False),
    )
