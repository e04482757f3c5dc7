"""What happened to a trigger and what lies ahead of it, in the order of time, a page at a time."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row, dict_row

from shared.domain.instants import instant_text
from shared.domain.runs import RunStatus
from shared.domain.triggers import TriggerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """A consumed identity, and its run as far as it is still there.

    ``record_id`` is 0 for the window of a clock trigger. ``by_run``: not consumed at a save.
    """

    record_id: int
    identity: str
    by_run: bool
    consumed_at: datetime
    run_id: int | None
    run_status: RunStatus | None
    run_error: str | None


OccurrencePlace = tuple[datetime, int, str]
"""Where an occurrence stands in the order of time: when consumed, of which record, as what."""

_WITH_RUN = """
SELECT
    occurrence.record_id,
    occurrence.identity,
    occurrence.by_run,
    occurrence.consumed_at,
    run.id AS run_id,
    run.status AS run_status,
    run.error AS run_error
FROM occurrence
LEFT JOIN LATERAL (
"""

_OF_RECORD = """
    SELECT id, status, error
    FROM trigger_run
    WHERE table_id = %(table_id)s
        AND record_id = occurrence.record_id
        AND trigger_ref = %(trigger_ref)s
        AND identity = occurrence.identity
    ORDER BY id DESC
    LIMIT 1
) AS run ON true
WHERE occurrence.trigger_ref = %(trigger_ref)s
"""

WITH_RUN_OF_RECORD = _WITH_RUN + _OF_RECORD

# A run is kept under its identity: NULL is its record.
_OF_WINDOW = """
    SELECT id, status, error
    FROM trigger_run
    WHERE trigger_ref = %(trigger_ref)s
        AND identity = occurrence.identity
        AND record_id IS NULL
    LIMIT 1
) AS run ON true
WHERE occurrence.trigger_ref = %(trigger_ref)s
    AND occurrence.record_id = 0
"""

WITH_RUN_OF_WINDOW = _WITH_RUN + _OF_WINDOW

_CONSUMED_WITHIN = """
    AND occurrence.consumed_at >= %(from_at)s
    AND occurrence.consumed_at < %(to_at)s
    AND (occurrence.consumed_at, occurrence.record_id, occurrence.identity)
        > (%(after_at)s, %(after_record_id)s, %(after_identity)s)
ORDER BY occurrence.consumed_at, occurrence.record_id, occurrence.identity
LIMIT %(limit)s
"""

_LIST_OCCURRENCES = WITH_RUN_OF_RECORD + _CONSUMED_WITHIN


def list_occurrences(
    conn: Connection,
    state: TriggerState,
    *,
    from_at: datetime,
    to_at: datetime,
    after: OccurrencePlace | None = None,
    limit: int,
) -> list[Occurrence]:
    """Return what a date trigger consumed from ``from_at`` on and before ``to_at``, oldest first.

    ``after`` is the place behind which the page begins.
    """
    after_at, after_record_id, after_identity = after or (from_at, 0, "")
    parameters = {
        "table_id": state.table_id,
        "trigger_ref": state.ref,
        "from_at": from_at,
        "to_at": to_at,
        "after_at": after_at,
        "after_record_id": after_record_id,
        "after_identity": after_identity,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        return cursor.execute(_LIST_OCCURRENCES, parameters, prepare=False).fetchall()


_WINDOWS_WITHIN = """
    AND occurrence.identity >= %(from_identity)s
    AND occurrence.identity < %(to_identity)s
    AND occurrence.identity > %(after_identity)s
ORDER BY occurrence.identity
LIMIT %(limit)s
"""

_LIST_WINDOWS = WITH_RUN_OF_WINDOW + _WINDOWS_WITHIN


def list_consumed_windows(
    conn: Connection,
    state: TriggerState,
    *,
    from_at: datetime,
    to_at: datetime,
    after: str = "",
    limit: int,
) -> list[Occurrence]:
    """Return the windows that a clock trigger consumed, in this range, behind the one ``after``.

    They are their own order: an identity is the instant, written so that texts sort as times do.
    """
    parameters = {
        "trigger_ref": state.ref,
        "from_identity": _bound(from_at),
        "to_identity": _bound(to_at),
        "after_identity": after,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Occurrence)) as cursor:
        return cursor.execute(_LIST_WINDOWS, parameters, prepare=False).fetchall()


def _bound(at: datetime) -> str:
    """Return a text between the identities of the windows before an instant, and those from it on.

    Windows are whole seconds: that of a broken one lies before it, and a tilde sorts behind it.
    """
    text = instant_text(at)
    return text.replace("Z", "~") if at.microsecond else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry of the due index: the record wants a look then."""

    record_id: int
    fire_at: datetime


# By the index that has the tenant first: that of all tenants would be read through all of theirs.
_LIST_ENTRIES = """
SELECT record_id, fire_at
FROM due_value
WHERE tenant_id = %(tenant_id)s
    AND trigger_ref = %(trigger_ref)s
    AND fire_at >= %(from_at)s
    AND fire_at < %(to_at)s
    AND (fire_at, trigger_ref, record_id)
        > (%(after_at)s, %(trigger_ref)s, %(after_record_id)s)
ORDER BY fire_at, trigger_ref, record_id
LIMIT %(limit)s
"""


def list_entries(
    conn: Connection,
    state: TriggerState,
    *,
    from_at: datetime,
    to_at: datetime,
    after: tuple[datetime, int] | None = None,
    limit: int,
) -> list[Entry]:
    """Return the entries of a date trigger in the due index, in this range, soonest first."""
    after_at, after_record_id = after or (from_at, 0)
    parameters = {
        "tenant_id": state.tenant_id,
        "trigger_ref": state.ref,
        "from_at": from_at,
        "to_at": to_at,
        "after_at": after_at,
        "after_record_id": after_record_id,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(Entry)) as cursor:
        return cursor.execute(_LIST_ENTRIES, parameters, prepare=False).fetchall()


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRun:
    """A run of a trigger on an event."""

    id: int
    record_id: int | None
    identity: str
    status: RunStatus
    error: str | None
    created_at: datetime


# Behind row level security the search would read, and hide, whatever others have: the function does
# not, and tells nothing of it but ids.
_IDS_WITHIN = "SELECT first_id, last_id FROM run_ids_within(%(from_at)s, %(to_at)s)"

_LIST_EVENT_RUNS = """
SELECT id, record_id, identity, status, error, created_at
FROM trigger_run
WHERE table_id = %(table_id)s
    AND trigger_id = %(trigger_id)s
    AND id > %(after)s
    AND id >= %(first_id)s
    AND id <= %(last_id)s
    AND created_at >= %(from_at)s
    AND created_at < %(to_at)s
ORDER BY id
LIMIT %(limit)s
"""


def list_event_runs(
    conn: Connection,
    table_id: UUID,
    trigger_id: str,
    *,
    from_at: datetime,
    to_at: datetime,
    after: int = 0,
    limit: int,
) -> list[EventRun]:
    """Return the runs of a trigger made in this range, behind the one ``after``, by id."""
    parameters = {
        "table_id": table_id,
        "trigger_id": trigger_id,
        "from_at": from_at,
        "to_at": to_at,
        "after": after,
        "limit": limit,
    }
    with conn.cursor(row_factory=dict_row) as cursor:
        bounds = cursor.execute(_IDS_WITHIN, parameters).fetchone()
    assert bounds is not None
    with conn.cursor(row_factory=class_row(EventRun)) as cursor:
        return cursor.execute(_LIST_EVENT_RUNS, parameters | bounds, prepare=False).fetchall()
