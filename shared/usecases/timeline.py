"""The timeline of a trigger: what it consumed, with its runs, and what lies ahead of it.

One list in two phases, each in the order of time, a page at a time. What was consumed comes first,
then what is due and not taken yet, and what comes. Read only (spec 1 §9).
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import UUID

from psycopg import Connection

from shared.db.clock import server_now
from shared.domain.records import CustomTable
from shared.domain.runs import RunKind
from shared.domain.strict_json import Json
from shared.errors import Fault, InvalidInput
from shared.queries.custom_tables import get_table
from shared.usecases.known_triggers import get_known
from shared.usecases.preview import snapshot
from shared.usecases.preview_arms import warnings_of
from shared.usecases.scheduled_triggers import Ready
from shared.usecases.timeline_items import Asked, Item, Place, items_ahead, past_items

MAX_RANGE = timedelta(days=366)
DEFAULT_RANGE = timedelta(days=7)
"""Before now and behind it, where an end of the range is left out."""

_BEGINNING = datetime.min.replace(tzinfo=UTC)
_END = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A page of a trigger's timeline; ``more``: others follow behind its last item.

    ``complete``: the due index knows all rows ahead; until the walk has passed all once, it does
    not.
    """

    table_id: UUID
    trigger_id: str
    kind: RunKind | None
    evaluated_at: datetime
    from_at: datetime
    to_at: datetime
    warnings: list[Json]
    error_codes: list[str]
    complete: bool
    items: list[Item]
    more: bool


def timeline(
    conn: Connection,
    table: CustomTable,
    trigger_id: str,
    *,
    from_at: datetime | None,
    to_at: datetime | None,
    after: Place | None = None,
    limit: int,
    now: datetime | None = None,
) -> Timeline:
    """Return up to ``limit`` moments of a trigger from ``from_at`` on and before ``to_at``.

    Left out, these are seven days before and behind now. ``after`` is the place of the last item of
    the page before. Of a broken or removed trigger nothing lies ahead; a disabled one is told as if
    it were enabled. Raises NotFound, InvalidInput ``range_empty`` and ``range_too_long``. No
    transaction may be open.
    """
    now = server_now(conn) if now is None else now
    from_at, to_at = _range(from_at, to_at, now=now)
    with snapshot(conn):
        known = get_known(conn, get_table(conn, table.id), trigger_id)
        asked = Asked(
            conn=conn,
            known=known,
            from_at=from_at,
            to_at=to_at,
            after=after,
            count=limit + 1,
            now=now,
        )
        found = [] if after is not None and after.phase == "ahead" else past_items(asked)
        if len(found) <= limit:
            found += items_ahead(asked, asked.count - len(found))
    state = known.state
    return Timeline(
        table_id=table.id,
        trigger_id=trigger_id,
        kind=known.kind,
        evaluated_at=now,
        from_at=from_at,
        to_at=to_at,
        warnings=warnings_of(known.met) if isinstance(known.met, Ready) else known.warnings,
        error_codes=known.error_codes,
        complete=state is None or state.kind != "date_column_reached" or state.caught_up,
        items=found[:limit],
        more=len(found) > limit,
    )


def _range(
    from_at: datetime | None, to_at: datetime | None, *, now: datetime
) -> tuple[datetime, datetime]:
    """Return the range that is meant, its ends within the years 1 to 9999."""
    start = from_at or _moved(min(now, to_at or now), -DEFAULT_RANGE)
    end = to_at or _moved(max(now, start), DEFAULT_RANGE)
    if start >= end:
        code, message = "range_empty", "from must be before to"
    elif end - start > MAX_RANGE:
        code, message = "range_too_long", f"from and to are at most {MAX_RANGE.days} days apart"
    else:
        return start, end
    raise InvalidInput.of([Fault(code=code, pointer="/from", message=message)])


def _moved(at: datetime, by: timedelta) -> datetime:
    try:
        return at + by
    except OverflowError:
        return _END if by > timedelta() else _BEGINNING
