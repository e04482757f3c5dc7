"""Which records of a page are of a backlog: overdue at the save, and not written since.

The same classes as ever: what is to be consumed has fired already, whatever ``when`` says; what
waits in a drip is due but for that, and lies ahead.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from datetime import datetime

from shared.domain.columns import Column
from shared.domain.on_existing import Backlog
from shared.domain.strict_json import Json
from shared.domain.triggers import Trigger
from shared.evaluator.date_trigger import (
    Candidate,
    DatePage,
    DateValues,
    Due,
    judge_page,
    values_of,
)
from shared.schedule.model import DateColumnReached


def judge_beside(
    backlog: Backlog,
    trigger: Trigger,
    rows: Sequence[Candidate],
    *,
    fresh: Set[int],
    consumed: Set[tuple[int, str]],
    now: datetime,
) -> DatePage:
    """Return what ``judge_page`` does, with the records of the backlog set apart.

    ``fresh`` are the records whose value was written since the save.
    """
    if backlog.mode == "consume":
        overdue = [
            due
            for due in _overdue(trigger, rows, backlog)
            if due.record_id not in fresh and (due.record_id, due.identity) not in consumed
        ]
        entered = {(due.record_id, due.identity) for due in overdue}
        page = judge_page(trigger, rows, consumed=consumed | entered, now=now)
        return replace(page, of_backlog=overdue)
    page = judge_page(trigger, rows, consumed=consumed, now=now)
    held = [due for due in page.due if due.fire_at <= backlog.before and due.record_id not in fresh]
    waiting = {due.record_id for due in held}
    return replace(
        page,
        scheduled_for_future=page.scheduled_for_future + len(held),
        due=[due for due in page.due if due.record_id not in waiting],
        of_backlog=held,
    )


def _overdue(trigger: Trigger, rows: Iterable[Candidate], backlog: Backlog) -> Iterable[Due]:
    values = values_of(trigger)
    for row in rows:
        identity, instant = values[row.cell]
        if instant is not None and instant <= backlog.before:
            yield Due(row.record_id, row.version, identity, instant)


def overdue_identity(
    schedule: DateColumnReached, column: Column, backlog: Backlog
) -> Callable[[Mapping[str, Json]], str | None]:
    """Return what tells the identity of a row's date if it was due at the save; None of any other.

    It takes cells by column id; ``column`` is the one that the schedule names.
    """
    values = DateValues(column, schedule)

    def identity_of(cells: Mapping[str, Json]) -> str | None:
        cell = cells.get(column.id)
        identity, instant = values[cell if isinstance(cell, str) else None]
        return identity if instant is not None and instant <= backlog.before else None

    return identity_of
