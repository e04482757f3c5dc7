"""What is due, told the slow and simple way: every row read, no page, no index, no SQL to judge.

It shares the schedule maths with the product (held by tests of its own) and nothing else.
"""

from collections import Counter
from dataclasses import dataclass

from shared.schedule import due_window, fire_at, parse_cell, parse_schedule
from shared.usecases.walk import MAX_PAGES
from tests.integration.usecases.world import records_of

CLASSES = (
    "missing_schedule_value",
    "invalid_schedule_value",
    "already_fired",
    "scheduled_for_future",
    "when_filter_mismatch",
    "due_now",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A schedule trigger that stands in a live table, and all the rows that matter to it.

    ``held`` are the (record id, identity) pairs that wait in a drip.
    """

    table: object
    stored: dict
    state: object
    consumed: frozenset
    is_fenced: bool
    held: frozenset = frozenset()

    @property
    def is_clock(self):
        return self.state.kind != "date_column_reached"

    def due_window(self, now):
        """Return the identity of the window that is due, or None; whatever the fence says."""
        schedule = parse_schedule(self.stored["schedule"])
        window = due_window(
            schedule,
            anchor=self.state.anchor_at,
            last_consumed=self.state.last_window_at,
            now=now,
        )
        identity = window and window.strftime("%Y-%m-%dT%H:%M:%SZ")
        return None if identity is None or (0, identity) in self.consumed else identity

    def classified(self, records, now):
        """Return (record id, identity or None, class) of every record, in the order given."""
        return [(record.id, *self._class_of(record, now)) for record in records]

    def _class_of(self, record, now):
        schedule = self.stored["schedule"]
        column = next(one for one in self.table.columns if one.name == schedule["column"])
        value = record.data.get(column.id)
        cell = parse_cell(value, column.type)
        if cell is None:
            blank = value is None or not str(value).strip()
            return None, "missing_schedule_value" if blank else "invalid_schedule_value"
        if (record.id, cell.identity) in self.consumed:
            return cell.identity, "already_fired"
        if fire_at(cell.instant, schedule.get("offset_minutes", 0)) > now:
            return cell.identity, "scheduled_for_future"
        if self.stored["when"] and record.data.get("c3") is not True:
            return cell.identity, "when_filter_mismatch"
        if (record.id, cell.identity) in self.held:
            return cell.identity, "scheduled_for_future"
        return cell.identity, "due_now"

    def in_walk_order(self, conn):
        """Return the live records of the table as the walk meets them from its cursor on."""
        live = [one for one in records_of(conn, self.table) if one.deleted_at is None]
        if self.state.cursor is None:
            return live
        behind = [one for one in live if (one.created_at, one.id) > self.state.cursor]
        return behind + live[: len(live) - len(behind)]

    def first_page(self, conn, limit, now):
        """Return how many records of the page are in each class."""
        page = self.in_walk_order(conn)[:limit]
        return Counter(name for *_, name in self.classified(page, now))

    def next_tick(self, conn, limit, now):
        """Return what a tick creates: (record id or None, identity), as a set."""
        if not self.stored["enabled"]:
            return set()
        if self.is_clock:
            window = None if self.is_fenced else self.due_window(now)
            return set() if window is None else {(None, window)}
        walk = self.classified(self.in_walk_order(conn), now)
        for start in range(0, min(len(walk), MAX_PAGES * limit), limit):
            page = walk[start : start + limit]
            due = {(record_id, identity) for record_id, identity, name in page if name == "due_now"}
            if due:
                return due
        return set()
