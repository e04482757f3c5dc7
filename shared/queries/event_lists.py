"""The events that a tenant has told of, as people see them: one, or a page."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.columns import size_of
from shared.errors import NotFound
from shared.queries.pages import Page, read_page


@dataclass(frozen=True, slots=True, kw_only=True)
class EventFilter:
    """Which events; None does not restrict. Of the time ``from_at`` belongs, ``to_at`` does not."""

    name: str | None = None
    from_at: datetime | None = None
    to_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastEvent:
    """An event, the rules that matched it, and the actions that they scheduled."""

    id: int
    name: str
    line_user_id: int | None
    data: dict[str, Any]
    idempotency_key: str | None
    rule_ids: list[int]
    action_ids: list[int]
    created_at: datetime


_COLUMNS = """
SELECT id, name, line_user_id, data, idempotency_key, rule_ids, action_ids, created_at
FROM event
WHERE tenant_id = %(tenant_id)s
"""

_GET = _COLUMNS + "    AND id = %(event_id)s\n"


def get_event(conn: Connection, tenant_id: UUID, event_id: int) -> PastEvent:
    """Return an event of the tenant; raises NotFound ``event_not_found``."""
    parameters = {"tenant_id": tenant_id, "event_id": event_id}
    with conn.cursor(row_factory=class_row(PastEvent)) as cursor:
        found = cursor.execute(_GET, parameters).fetchone()
    if found is None:
        raise NotFound(f"event {event_id} does not exist", code="event_not_found")
    return found


# One clause for each filter given, and never prepared: see ``action_lists``.
_CLAUSES: tuple[tuple[str, LiteralString], ...] = (
    ("name", "    AND name = %(name)s\n"),
    ("from_at", "    AND created_at >= %(from_at)s\n"),
    ("to_at", "    AND created_at < %(to_at)s\n"),
)
_OLDER = """
    AND (created_at, id) < (%(before_at)s, %(before_id)s)
"""
_NEWEST_FIRST = """
ORDER BY created_at DESC, id DESC
LIMIT %(limit)s
"""

Place = tuple[datetime, int]
"""Where an event stands in a listing: when it was taken, and its id."""


def list_events(
    conn: Connection,
    tenant_id: UUID,
    filter: EventFilter,
    *,
    before: Place | None = None,
    limit: int,
) -> Page[PastEvent]:
    """Return up to ``limit`` events of the tenant before a place, the newest first.

    Fewer when their data are large.
    """

    def read(before: Place | None, limit: int) -> list[PastEvent]:
        return _older_events(conn, tenant_id, filter, before, limit)

    return read_page(
        read, after=before, limit=limit, size=lambda event: size_of(event.data), place=place
    )


def place(event: PastEvent) -> Place:
    """Return where an event stands in a listing."""
    return event.created_at, event.id


def statement(filter: EventFilter, before: Place | None) -> LiteralString:
    """Return the query of a page."""
    given = (clause for name, clause in _CLAUSES if getattr(filter, name) is not None)
    older: LiteralString = "" if before is None else _OLDER
    return _COLUMNS + "".join(given) + older + _NEWEST_FIRST


def _older_events(
    conn: Connection, tenant_id: UUID, filter: EventFilter, before: Place | None, limit: int
) -> list[PastEvent]:
    before_at, before_id = before or (None, None)
    parameters = {
        "tenant_id": tenant_id,
        "name": filter.name,
        "from_at": filter.from_at,
        "to_at": filter.to_at,
        "before_at": before_at,
        "before_id": before_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(PastEvent)) as cursor:
        return cursor.execute(statement(filter, before), parameters, prepare=False).fetchall()
