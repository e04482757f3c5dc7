"""Writes of slots: what a roster yields is added, what it yields no longer is taken out.

They are records: each brings its event runs and its entries in the due index.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.rosters import OPEN, SlotColumns, slot_key, start_in, start_key, wall_text
from shared.domain.strict_json import Json
from shared.effects.record_writes import RecordWrite, follow_write
from shared.queries.slots import KnownSlot, OpenSlots, insert_slots, list_slots, prune_slots
from shared.schedule.slots import Slot, Stretch

T = TypeVar("T")

_BATCH = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """A table that is filled with the slots of a roster; ``prune``: also emptied of others.

    ``most`` slots that are there are looked at, more if they begin together. ``depth`` is that of
    the runs that the writes cause.
    """

    table: CustomTable
    columns: SlotColumns
    roster: CustomTable
    prune: bool
    most: int
    depth: int
    now: datetime

    @property
    def open_slots(self) -> OpenSlots:
        """Which slots may be taken out."""
        return OpenSlots(roster_id=self.roster.id, status=self.columns.status, text=OPEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filled:
    """What became of the slots of a stretch up to ``until``; ``looked_at``: how many there were."""

    until: datetime
    looked_at: int
    created: int
    kept: int
    pruned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Difference:
    """What there is to do up to ``until``: slots to be made, cells by key, others to be taken out.

    ``known`` slots were there, ``wanted`` ones are to be.
    """

    until: datetime
    known: int
    wanted: int
    missing: Mapping[str, dict[str, Json]]
    gone: Sequence[KnownSlot]


def fill(conn: Connection, filling: Filling, stretch: Stretch) -> Filled:
    """Make a stretch of time, or its beginning, what the roster yields, each slot once.

    A slot that is there under its key is kept, be it taken, changed, or deleted by a person. Pruned
    are open ones that are not in the stretch, or not as long. Raises ChainTooDeep.
    """
    with conn.transaction():
        difference = _compare(conn, filling, stretch)
        pruned = _prune(conn, filling, difference.gone)
        created = _add(conn, filling, difference.missing)
    return _filled(difference, created=created, pruned=pruned)


def foresee(conn: Connection, filling: Filling, stretch: Stretch) -> Filled:
    """Return what ``fill`` would do, and do nothing."""
    difference = _compare(conn, filling, stretch)
    return _filled(difference, created=len(difference.missing), pruned=len(difference.gone))


def _filled(difference: _Difference, *, created: int, pruned: int) -> Filled:
    return Filled(
        until=difference.until,
        looked_at=difference.known + len(difference.missing),
        created=created,
        kept=difference.wanted - created,
        pruned=pruned,
    )


def _compare(conn: Connection, filling: Filling, stretch: Stretch) -> _Difference:
    known, until = _known(conn, filling, stretch)
    wanted = {slot_key(slot): slot for slot in stretch.slots if slot.start < until}
    gone = [slot for slot in known if filling.prune and _is_past(slot, wanted)]
    there = {slot.key for slot in known} - {slot.key for slot in gone}
    missing = {key: filling.columns.cells(slot) for key, slot in wanted.items() if key not in there}
    return _Difference(
        until=until, known=len(known), wanted=len(wanted), missing=missing, gone=gone
    )


def _known(
    conn: Connection, filling: Filling, stretch: Stretch
) -> tuple[list[KnownSlot], datetime]:
    """Return the slots that are there, and up to which start: a roster may have lost its lines."""
    most = filling.most
    while True:
        found = list_slots(
            conn,
            filling.table,
            open_slots=filling.open_slots,
            end=filling.columns.end,
            first=start_key(stretch.after),
            until=start_key(stretch.until),
            limit=most + 1,
        )
        if len(found) <= most:
            return found, stretch.until
        starts = [start_in(slot.key, stretch.after.tzinfo) for slot in found]
        if starts[0] < starts[most]:
            return found[: starts.index(starts[most])], starts[most]
        most *= 2


def _is_past(known: KnownSlot, wanted: Mapping[str, Slot]) -> bool:
    """Tell whether an open slot is not, or no longer so, what the roster yields."""
    slot = wanted.get(known.key)
    return known.is_open and (slot is None or known.end != wall_text(slot.end))


def _add(conn: Connection, filling: Filling, missing: Mapping[str, dict[str, Json]]) -> int:
    created = 0
    for keys in _batches(list(missing)):
        records = insert_slots(
            conn,
            filling.table,
            {key: missing[key] for key in keys},
            roster_id=filling.roster.id,
            now=filling.now,
        )
        write = RecordWrite(
            records=records, event="record_created", depth=filling.depth, now=filling.now
        )
        follow_write(conn, filling.table, write)
        created += len(records)
    return created


def _prune(conn: Connection, filling: Filling, gone: Sequence[KnownSlot]) -> int:
    pruned = 0
    for slots in _batches(gone):
        records = prune_slots(
            conn,
            filling.table,
            [slot.id for slot in slots],
            open_slots=filling.open_slots,
            now=filling.now,
        )
        write = RecordWrite(
            records=records, event="record_deleted", depth=filling.depth, now=filling.now
        )
        follow_write(conn, filling.table, write)
        pruned += len(records)
    return pruned


def _batches(items: Sequence[T]) -> list[Sequence[T]]:
    return [items[start : start + _BATCH] for start in range(0, len(items), _BATCH)]
