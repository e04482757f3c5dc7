"""The timeline: what was consumed with its runs, what lies ahead; paged, ordered, bounded."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from psycopg import Cursor

from shared.errors import InvalidInput, NotFound
from shared.queries.custom_tables import get_table
from shared.usecases.due_pass import due_pass
from shared.usecases.manage_tables import alter_table
from shared.usecases.timeline import MAX_RANGE, timeline
from tests.builders_db import NOW, insert_run, insert_table
from tests.integration.usecases.world import (
    AHEAD,
    CLOCKS,
    CRON,
    DATE,
    DAY,
    HOUR,
    INTERVAL,
    MINUTE,
    OVERDUE,
    TRIGGER_ID,
    a_known,
    at,
    created,
    end_runs,
    runs,
    save,
    write,
)


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _ask(conn, table, *, from_at=NOW - DAY, to_at=NOW + 2 * DAY, limit=100, now=NOW, **options):
    return timeline(
        conn, table, TRIGGER_ID, from_at=from_at, to_at=to_at, limit=limit, now=now, **options
    )


def _tick(conn, *, now=NOW):
    """Tick, and let the due pass drop what has fired."""
    created(conn, now=now)
    due_pass(conn, now=now)


def _told(found):
    return [
        (item.place.phase, item.at, item.record_id, item.identity, item.run and item.run.status)
        for item in found.items
    ]


def _pages(conn, table, *, limit, **options):
    """Return all items, page by page."""
    items, after = [], None
    while True:
        page = _ask(conn, table, limit=limit, after=after, **options)
        assert len(page.items) <= limit
        items += page.items
        if not page.more:
            return items
        assert len(page.items) == limit
        after = page.items[-1].place


def test_a_date_trigger_tells_its_ledger_with_runs_and_the_rows_ahead(conn, table):
    save(conn, table, a_known(schedule=DATE))
    fired, ahead, later = write(conn, table, OVERDUE, AHEAD, "2026-07-26 20:00")
    _tick(conn)
    end_runs(conn, status="failed")

    found = _ask(conn, table)

    assert _told(found) == [
        ("past", NOW, fired.id, OVERDUE, "failed"),
        ("ahead", at(AHEAD), ahead.id, None, None),
        ("ahead", at("2026-07-26 20:00"), later.id, None, None),
    ]
    [item, *_] = found.items
    [run] = runs(conn)
    assert (item.run.id, item.run.error, item.by_run) == (run["id"], "it failed", True)
    assert (found.kind, found.complete, found.warnings) == ("date_column_reached", True, [])


def test_an_occurrence_outlives_its_run_and_needs_none(conn, table):
    save(conn, table, a_known(schedule=DATE))
    [record] = write(conn, table, OVERDUE)
    _tick(conn)
    conn.execute("DELETE FROM trigger_run")
    conn.execute(
        "INSERT INTO occurrence SELECT trigger_ref, record_id, '2026-07-24 00:00', false, %s"
        " FROM occurrence",
        [NOW - HOUR],
    )

    found = _ask(conn, table)

    assert [(item.identity, item.by_run, item.run) for item in found.items] == [
        ("2026-07-24 00:00", False, None),
        (OVERDUE, True, None),
    ]
    assert {item.record_id for item in found.items} == {record.id}


def test_what_would_come_of_the_rows_ahead_is_told(conn, table):
    when = [{"column": "title", "op": "neq", "value": "done"}]
    save(conn, table, a_known(schedule=DATE, when=when))
    rows = [{"c2": OVERDUE}, {"c2": AHEAD}, {"c2": AHEAD, "c1": "done"}, {"c2": AHEAD}]
    fired, fires, refused, deleted = write(conn, table, *rows)
    created(conn)
    conn.execute("UPDATE record SET deleted_at = updated_at WHERE id = %s", [deleted.id])

    found = _ask(conn, table)

    assert [(item.record_id, item.verdict) for item in found.items] == [
        (fired.id, None),
        (fired.id, "already_fired"),  # an entry that the due pass has not looked at yet
        (fires.id, "due_now"),
        (refused.id, "when_filter_mismatch"),
        (deleted.id, "record_deleted"),
    ]


def test_many_rows_that_will_not_fire_are_read_together(conn, table):
    when = [{"column": "title", "op": "eq", "value": "done"}]
    save(conn, table, a_known(schedule=DATE, when=when))
    write(conn, table, *[AHEAD] * 30)
    created(conn)
    asked = []

    class Noting(Cursor):
        def execute(self, query, *arguments, **options):
            asked.append(query)
            return super().execute(query, *arguments, **options)

    conn.cursor_factory = Noting
    few = _ask(conn, table, limit=1)
    asked_for_few = len(asked)
    asked.clear()
    many = _ask(conn, table)

    assert (len(few.items), len(many.items)) == (1, 30)
    assert {item.verdict for item in many.items} == {"when_filter_mismatch"}
    assert len(asked) == asked_for_few


def test_before_the_walk_has_passed_all_rows_not_all_ahead_are_known(conn, table):
    write(conn, table, AHEAD)
    save(conn, table, a_known(schedule=DATE))

    before = _ask(conn, table)
    _tick(conn)
    behind = _ask(conn, table)

    assert (before.complete, _told(before)) == (False, [])
    assert behind.complete
    assert len(behind.items) == 1


def test_what_is_due_and_not_taken_stands_before_what_comes(conn, table):
    save(conn, table, a_known(schedule=DATE))
    due, ahead = write(conn, table, OVERDUE, AHEAD)

    assert [(item.place.phase, item.record_id) for item in _ask(conn, table).items] == [
        ("ahead", due.id),
        ("ahead", ahead.id),
    ]


@pytest.mark.parametrize("schedule", CLOCKS)
def test_a_clock_tells_its_windows_with_runs_the_one_due_and_those_that_come(conn, table, schedule):
    save(conn, table, a_known(schedule=schedule), now=NOW - 2 * DAY)
    _tick(conn, now=NOW - DAY)
    end_runs(conn)

    found = _ask(conn, table, to_at=NOW + DAY + MINUTE)

    [past, due, *coming] = _told(found)
    consumed = "2026-07-24T09:00:00Z"
    assert past == ("past", NOW - DAY, None, consumed, "done")
    assert due == ("ahead", NOW, None, "2026-07-25T09:00:00Z", None)
    assert {item.verdict for item in found.items[1:]} == {"due_now"}
    step = HOUR if schedule is INTERVAL else DAY
    assert [item[1] for item in coming] == [NOW + n * step for n in range(1, DAY // step + 1)]
    assert all(item.window.offset == "+00:00" for item in found.items[1:])


def test_while_a_run_is_active_the_due_window_is_told_all_the_same(conn, table):
    save(conn, table, a_known(schedule=INTERVAL), now=NOW - HOUR)
    _tick(conn, now=NOW - HOUR)

    told = _told(_ask(conn, table, to_at=NOW + MINUTE))

    assert [item[0] for item in told] == ["past", "ahead"]


def test_an_event_trigger_tells_its_runs(conn, table):
    save(conn, table, a_known(on="record_created"))
    first, second = write(conn, table, AHEAD, AHEAD, now=NOW - HOUR)
    end_runs(conn)

    found = _ask(conn, table)

    assert _told(found) == [
        ("past", NOW - HOUR, first.id, "record_created:1", "done"),
        ("past", NOW - HOUR + MINUTE, second.id, "record_created:1", "done"),
    ]
    assert found.kind == "record_created"


def test_runs_of_the_range_are_found_among_older_newer_and_others(conn, table):
    save(conn, table, a_known(on="record_created"))
    wanted = []
    for number in range(60):
        made_at = NOW - 30 * DAY + number * DAY
        ours = number % 3 == 0
        run_id = insert_run(
            conn,
            table,
            trigger_id=TRIGGER_ID if ours else "trg_00000000bbbb",
            kind="record_created",
            created_at=made_at,
        )
        if ours and NOW - 5 * DAY <= made_at < NOW + 5 * DAY:
            wanted.append(run_id)
    conn.execute("DELETE FROM trigger_run WHERE id %% 7 = 0 AND id <> ALL(%s)", [wanted])

    found = _ask(conn, table, from_at=NOW - 5 * DAY, to_at=NOW + 5 * DAY)

    assert [item.run.id for item in found.items] == wanted
    assert len(wanted) > 2


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 50])
@pytest.mark.parametrize("schedule", [DATE, INTERVAL])
def test_pages_neither_repeat_nor_skip(conn, table, schedule, limit):
    save(conn, table, a_known(schedule=schedule), now=NOW - 3 * HOUR)
    write(conn, table, OVERDUE, OVERDUE, OVERDUE, AHEAD, AHEAD, "2026-07-26 09:00")
    for hour in (3, 2, 1):
        _tick(conn, now=NOW - hour * HOUR)
        end_runs(conn)
    _tick(conn)

    paged = _pages(conn, table, limit=limit, to_at=NOW + 4 * HOUR if schedule is INTERVAL else None)

    whole = _ask(conn, table, to_at=NOW + 4 * HOUR if schedule is INTERVAL else None)
    assert paged == whole.items
    assert not whole.more
    assert len(paged) == (6 if schedule is DATE else 4 + 3)
    assert [item.place for item in paged if item.place.phase == "past"] == sorted(
        item.place for item in paged if item.place.phase == "past"
    )


def test_many_values_of_one_instant_are_paged_by_their_records(conn, table):
    save(conn, table, a_known(schedule=DATE))
    records = write(conn, table, *[OVERDUE] * 7)
    _tick(conn)

    paged = _pages(conn, table, limit=2)

    assert [item.record_id for item in paged] == [record.id for record in records]
    assert {item.at for item in paged} == {NOW}


def test_the_ends_of_the_range_belong_to_it_and_do_not(conn, table):
    save(conn, table, a_known(schedule=INTERVAL), now=NOW - 2 * HOUR)
    for hour in (2, 1, 0):
        _tick(conn, now=NOW - hour * HOUR)
        end_runs(conn)
    a_moment = timedelta(microseconds=1)

    def windows(from_at, to_at):
        return [item.at for item in _ask(conn, table, from_at=from_at, to_at=to_at).items]

    assert windows(NOW - HOUR, NOW + HOUR) == [NOW - HOUR, NOW]
    assert windows(NOW - HOUR + a_moment, NOW + HOUR + a_moment) == [NOW, NOW + HOUR]
    assert windows(NOW + HOUR, NOW + 2 * HOUR + a_moment) == [NOW + HOUR, NOW + 2 * HOUR]


def test_the_range_is_seven_days_before_and_behind_now_if_nothing_is_said(conn, table):
    save(conn, table, a_known(schedule=CRON))

    found = _ask(conn, table, from_at=None, to_at=None)
    behind = _ask(conn, table, from_at=NOW + 30 * DAY, to_at=None)
    before = _ask(conn, table, from_at=None, to_at=NOW - 30 * DAY)

    week = 7 * DAY
    assert (found.from_at, found.to_at) == (NOW - week, NOW + week)
    assert (behind.from_at, behind.to_at) == (NOW + 30 * DAY, NOW + 30 * DAY + week)
    assert (before.from_at, before.to_at) == (NOW - 30 * DAY - week, NOW - 30 * DAY)
    assert (len(found.items), len(behind.items)) == (6, 7)
    assert before.items == []


@pytest.mark.parametrize(
    ("from_at", "to_at", "code"),
    [
        (NOW, NOW, "range_empty"),
        (NOW, NOW - HOUR, "range_empty"),
        (NOW, NOW + MAX_RANGE + MINUTE, "range_too_long"),
    ],
)
def test_a_range_that_is_none_or_too_long_is_refused(conn, table, from_at, to_at, code):
    with pytest.raises(InvalidInput) as caught:
        _ask(conn, table, from_at=from_at, to_at=to_at)

    assert [fault.code for fault in caught.value.faults] == [code]


@pytest.mark.parametrize(
    ("from_at", "to_at"),
    [
        (datetime.min.replace(tzinfo=UTC), None),
        (None, datetime.min.replace(tzinfo=UTC) + HOUR),
        (datetime.max.replace(tzinfo=UTC) - HOUR, None),
        (None, datetime.max.replace(tzinfo=UTC)),
    ],
)
@pytest.mark.parametrize(
    "trigger", [a_known(), a_known(schedule=DATE), a_known(on="record_created")]
)
def test_the_ends_of_time_are_no_exception(conn, table, trigger, from_at, to_at):
    save(conn, table, trigger)

    with suppress(InvalidInput):  # too long a range
        found = _ask(conn, table, from_at=from_at, to_at=to_at)
        assert found.from_at < found.to_at


def test_a_disabled_one_is_told_as_if_it_were_enabled_and_of_others_nothing_is_ahead(conn, table):
    save(conn, table, a_known(schedule=DATE))
    fired, _ = write(conn, table, OVERDUE, AHEAD)
    _tick(conn)

    def told():
        found = _ask(conn, table)
        return found.warnings, found.error_codes, [item.place.phase for item in found.items]

    save(conn, table, a_known(schedule=DATE, enabled=False))
    assert told() == (["trigger_disabled"], [], ["past", "ahead"])
    alter_table(conn, table.id, raw_columns=[{"name": "title", "type": "text"}], now=NOW)
    assert told() == (["trigger_disabled"], ["schedule_column_missing"], ["past"])
    save(conn, table)
    assert told() == (["trigger_removed"], [], ["past"])
    assert fired.id == _ask(conn, table).items[0].record_id
    with pytest.raises(NotFound) as caught:
        timeline(conn, table, "trg_00000000ffff", from_at=None, to_at=None, limit=1)
    assert caught.value.code == "trigger_not_found"


def test_another_trigger_and_another_table_have_nothing_to_do_with_it(conn, table):
    other = insert_table(conn, tenant_id=table.tenant_id)
    save(conn, table, a_known(schedule=DATE), a_known(id="trg_00000000bbbb", schedule=DATE))
    save(conn, other, a_known(schedule=DATE))
    write(conn, other, OVERDUE, AHEAD)
    write(conn, table, OVERDUE, AHEAD)
    _tick(conn)

    assert len(_ask(conn, table).items) == len(_ask(conn, get_table(conn, other.id)).items) == 2
