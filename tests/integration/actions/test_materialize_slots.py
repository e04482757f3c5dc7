from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from shared.actions import materialize_slots
from shared.actions.action import Unfinished
from shared.actions.failures import ActionFailed
from shared.domain.columns import Column, read_cells
from shared.effects.record_writes import (
    MAX_DEPTH,
    create_records,
    delete_record,
    restore_record,
    update_record,
)
from shared.errors import NotFound
from shared.lifecycle import wait_until
from shared.queries.custom_tables import insert_table, trash_table, update_definition
from shared.usecases.manage_tables import alter_table
from shared.usecases.set_triggers import set_triggers
from tests.integration.actions.contexts import NOW, a_workspace, execute
from tests.integration.usecases.world import waits_for_a_lock

LINES = (
    Column(id="c1", name="who", type="json"),
    Column(id="c2", name="weekday", type="json"),
    Column(id="c3", name="from", type="text"),
    Column(id="c4", name="to", type="text"),
    Column(id="c5", name="since", type="date"),
    Column(id="c6", name="till", type="date"),
    Column(id="c7", name="day", type="datetime"),
    Column(id="c8", name="kind", type="text"),
)
SLOTS = (
    Column(id="c1", name="who", type="json"),
    Column(id="c2", name="start", type="datetime"),
    Column(id="c3", name="end", type="text"),
    Column(id="c4", name="status", type="select", options=("open", "taken")),
)
# A Monday, 20:00 in Taipei.
NOON = NOW


class Office:
    """A roster, its table of slots, and executions of the action."""

    def __init__(self, workspace):
        self.workspace = workspace
        self.conn = workspace.conn
        self.roster = self.a_table("roster", LINES)
        self.slots = self.a_table("slots", SLOTS)

    def a_table(self, name, columns, *, tenant=None, **of):
        return insert_table(
            self.conn,
            tenant_id=(tenant or self.workspace.tenant).id,
            channel_id=None,
            name=name,
            columns=columns,
            columns_made=len(columns),
            now=NOW,
            **of,
        )

    def line(self, who="ann", *, weekday="tue", start="09:00", end="10:00", roster=None, **cells):
        raw = {"who": who, "weekday": weekday, "from": start, "to": end, **cells}
        table = roster or self.roster
        [record] = create_records(self.conn, table, [read_cells(raw, table.columns)], now=NOW)
        return record

    def config(self, *, roster=None, weekday="weekday", when=None, **changes):
        lines = {"resource": "who", "start": "from", "end": "to"} | (
            {"date": "day"} if weekday is None else {"weekday": weekday}
        )
        return {
            "type": "materialize_slots",
            "roster": {"table_id": str((roster or self.roster).id), **lines}
            | ({} if when is None else {"when": when}),
            "target": {
                "table_id": str(self.slots.id),
                "resource": "who",
                "start": "start",
                "end": "end",
                "status": "status",
            },
            "slot_minutes": 30,
            "horizon_days": 2,
            "timezone": "Asia/Taipei",
            **changes,
        }

    def context(self, *, progress=None, now=NOON, **of_run):
        context = self.workspace.recordless(**of_run)
        return replace(context, now=now, progress=progress)

    def run(self, *, now=NOON, depth=0, **changes):
        """Execute to the end, and return the last result."""
        result = execute(self.config(**changes), self.context(now=now, depth=depth))
        while isinstance(result, Unfinished):
            context = self.context(now=now, depth=depth, progress=result.progress)
            result = execute(self.config(**changes), context)
        return result

    def rows(self):
        """The live slots, by start and resource."""
        rows = self.conn.execute(
            "SELECT id, data FROM record WHERE table_id = %s AND deleted_at IS NULL"
            " ORDER BY data ->> 'c2', data ->> 'c1'",
            [self.slots.id],
        )
        return list(rows)

    def told(self):
        return [f"{data['c2'][5:]} {data['c1']} {data['c4']}" for _, data in self.rows()]

    def change(self, index, **cells):
        record_id = self.rows()[index][0]
        by_id = read_cells(cells, self.slots.columns)
        return update_record(self.conn, self.slots, record_id, by_id, now=NOW)

    def with_trigger(self, on):
        trigger = {
            "id": "trg_aaaaaaaaaaaa",
            "name": "next",
            "enabled": True,
            "on": on,
            "when": [],
            "actions": [{"type": "delete_record"}],
        }
        self.slots = update_definition(self.conn, replace(self.slots, triggers=[trigger]), now=NOW)


@pytest.fixture
def office(workspace):
    return Office(workspace)


def counts(**counted):
    return {"created": 0, "kept": 0, "pruned": 0, "invalid": 0} | counted


def detail_of(office, **changes):
    with pytest.raises(ActionFailed) as caught:
        office.run(**changes)
    assert not caught.value.transient
    return caught.value.detail


def test_slots_are_open_records_in_local_time(office):
    office.line()

    assert office.run() == counts(created=2)

    assert [data for _, data in office.rows()] == [
        {"c1": "ann", "c2": "2026-12-01 09:00", "c3": "2026-12-01 09:30", "c4": "open"},
        {"c1": "ann", "c2": "2026-12-01 09:30", "c3": "2026-12-01 10:00", "c4": "open"},
    ]


def test_names_that_the_columns_had_when_the_run_was_made_are_found(office):
    office.line()
    office.line(who="bob")
    for table, old in ((office.roster, "who"), (office.slots, "status")):
        raw = [
            {**one.to_json(), "name": "renamed" if one.name == old else one.name}
            for one in table.columns
        ]
        alter_table(office.conn, table.id, raw_columns=raw, now=NOW)

    told = office.run(when=[{"column": "who", "op": "eq", "value": "ann"}])

    assert told == counts(created=2)
    assert office.told() == ["12-01 09:00 ann open", "12-01 09:30 ann open"]


def test_the_zone_is_the_schedules_where_the_action_has_none(office):
    office.line(start="00:00", end="01:00")
    config = {key: value for key, value in office.config().items() if key != "timezone"}
    context = replace(office.context(), schedule_zone="Pacific/Kiritimati")

    # There it is Tuesday, 02:00.
    assert execute(config, context) == counts()


def test_running_twice_adds_nothing(office):
    office.line()
    office.run()

    assert office.run() == counts(kept=2)

    assert len(office.rows()) == 2


def test_the_horizon_rolls(office):
    office.line(weekday=[0, 1, 2, 3, 4, 5, 6])
    office.run()

    assert office.run(now=NOON + timedelta(days=1)) == counts(created=2)
    assert office.told() == [
        "12-01 09:00 ann open",
        "12-01 09:30 ann open",
        "12-02 09:00 ann open",
        "12-02 09:30 ann open",
    ]


def test_taken_slots_stay_as_they_are_whatever_the_roster_says(office):
    line = office.line()
    office.run()
    office.change(0, status="taken", end="late")
    delete_record(office.conn, office.roster, line.id, now=NOW)

    assert office.run(prune=True) == counts(pruned=1)

    assert office.told() == ["12-01 09:00 ann taken"]


def test_open_slots_that_the_roster_yields_no_longer_are_pruned_if_it_is_asked_for(office):
    line = office.line()
    office.run()
    later = read_cells({"from": "09:30", "to": "10:30"}, LINES)
    update_record(office.conn, office.roster, line.id, later, now=NOW)

    assert office.run() == counts(created=1, kept=1)
    assert office.run(prune=True) == counts(kept=2, pruned=1)

    assert office.told() == ["12-01 09:30 ann open", "12-01 10:00 ann open"]


def test_an_open_slot_of_another_length_is_made_anew_if_pruning_is_asked_for(office):
    office.line()
    office.run()

    assert office.run(slot_minutes=60) == counts(kept=1)
    assert office.run(slot_minutes=60, prune=True) == counts(created=1, pruned=2)
    assert [(data["c2"], data["c3"]) for _, data in office.rows()] == [
        ("2026-12-01 09:00", "2026-12-01 10:00")
    ]


def test_slots_that_have_begun_are_neither_made_nor_pruned(office):
    line = office.line()
    office.run()
    delete_record(office.conn, office.roster, line.id, now=NOW)

    # 09:10 in Taipei.
    assert office.run(now=datetime(2026, 12, 1, 1, 10, tzinfo=UTC), prune=True) == counts(pruned=1)
    assert office.told() == ["12-01 09:00 ann open"]


def test_a_slot_that_a_person_deleted_does_not_come_back(office):
    office.line()
    office.run()
    delete_record(office.conn, office.slots, office.rows()[0][0], now=NOW)

    assert office.run(prune=True) == counts(kept=2)
    assert office.told() == ["12-01 09:30 ann open"]


def test_a_slot_that_was_pruned_comes_back_with_its_line(office):
    line = office.line()
    office.run()
    before = [record_id for record_id, _ in office.rows()]
    delete_record(office.conn, office.roster, line.id, now=NOW)
    office.run(prune=True)
    restore_record(office.conn, office.roster, line.id, now=NOW)

    assert office.run(prune=True) == counts(created=2)
    assert not {record_id for record_id, _ in office.rows()} & set(before)


def test_two_rosters_fill_one_table_and_prune_only_their_own(office):
    other = office.a_table("exceptions", LINES)
    office.line()
    office.line(roster=other, weekday=None, day="2026-12-01", end="11:00")

    assert office.run(prune=True) == counts(created=2)
    assert office.run(roster=other, weekday=None, prune=True) == counts(created=2, kept=2)
    assert office.run(prune=True) == counts(kept=2)
    assert len(office.rows()) == 4


def test_records_of_people_are_no_slots(office):
    cells = {"c1": "ann", "c2": "2026-12-01 09:00", "c3": "2026-12-01 09:30", "c4": "open"}
    create_records(office.conn, office.slots, [cells], now=NOW)

    assert office.run(prune=True) == counts()
    assert len(office.rows()) == 1


def test_a_resource_is_any_scalar_and_equal_ones_are_one(office):
    for who in (1, 1.0, True, "1", "true", 1.5, "安"):
        office.line(who=who, end="09:30")

    assert office.run() == counts(created=6)
    assert office.run() == counts(kept=6)


def test_lines_that_do_not_match_are_left_out(office):
    office.line(kind="day")
    office.line(who="bob", kind="night")
    when = [{"column": "kind", "op": "eq", "value": "night"}]

    assert office.run(when=when) == counts(created=2)
    assert office.told()[0] == "12-01 09:00 bob open"


def test_lines_have_dates_and_bounds(office):
    office.line(weekday=None, day="2026-12-01 23:00")
    office.line(who="bob", weekday=None, day="2026-12-01", since="2026-12-02")
    bounded = office.config(weekday=None)
    bounded["roster"] |= {"valid_from": "since", "valid_to": "till"}

    assert execute(bounded, office.context()) == counts(created=2)
    assert office.told() == ["12-01 09:00 ann open", "12-01 09:30 ann open"]


BROKEN = {
    "no resource": {"who": None},
    "a blank resource": {"who": " "},
    "a list as resource": {"who": ["ann"]},
    "a long resource": {"who": "x" * 1001},
    "no weekday": {"weekday": None},
    "a weekday of another language": {"weekday": "mardi"},
    "weekday 7": {"weekday": 7},
    "true as weekday": {"weekday": True},
    "one good weekday and a bad one": {"weekday": ["tue", "x"]},
    "no weekdays": {"weekday": []},
    "no start": {"start": None},
    "a start without minutes": {"start": "9"},
    "minute 60": {"start": "09:60"},
    "hour 25": {"end": "25:00"},
    "past the end of the day": {"end": "24:01"},
    "digits of another script": {"start": "\u0660\u0669:\u0660\u0660"},
    "no length": {"end": "09:00"},
    "a start at the end of the day": {"start": "24:00", "end": "01:00"},
    "a bound that is no date": {"since": "soon"},
}


def test_lines_that_cannot_be_read_are_counted(office):
    broken = [office.line(**cells) for cells in BROKEN.values()]
    office.line()
    config = office.config()
    config["roster"] |= {"valid_from": "since"}

    told = execute(config, office.context())

    assert told["created"] == 2
    assert told["invalid"] == len(BROKEN)
    assert [line["record_id"] for line in told["invalid_lines"]] == [
        record.id for record in broken[:10]
    ]
    assert told["invalid_lines"][0]["detail"] == "it has no resource"


@pytest.mark.parametrize(
    ("weekday", "start", "end"),
    [("Tuesday", "9:00", "9:30"), ("2", " 09:00:59 ", "09:30"), (2.0, "09:00", "09:30:00")],
)
def test_weekdays_and_times_have_several_forms(office, weekday, start, end):
    office.line(weekday=weekday, start=start, end=end)

    assert office.run() == counts(created=1)


def test_a_resource_that_the_table_of_slots_does_not_take_makes_a_broken_line(office):
    kept = Column(id="c1", name="who", type="select", options=("bob",))
    edited = replace(office.slots, columns=(kept, *SLOTS[1:]))
    office.slots = update_definition(office.conn, edited, now=NOW)
    office.line()
    office.line(who="bob")

    told = office.run()

    assert (told["created"], told["invalid"]) == (2, 1)


def test_slots_set_off_triggers_one_level_deeper(office):
    office.with_trigger("record_created")
    office.line()

    office.run(depth=3)

    runs = office.conn.execute("SELECT record_id, depth FROM trigger_run ORDER BY id").fetchall()
    assert runs == [(record_id, 4) for record_id, _ in office.rows()]


def test_triggers_of_the_slots_are_met_when_a_column_was_renamed_since(office):
    office.line()
    by_new_names = {
        "on": "record_created",
        "when": [{"column": "state", "op": "eq", "value": "open"}],
        "actions": [{"type": "delete_record"}],
    }
    raw = [
        {**one.to_json(), "name": "state" if one.name == "status" else one.name} for one in SLOTS
    ]
    alter_table(office.conn, office.slots.id, raw_columns=raw, now=NOW)
    set_triggers(office.conn, office.slots.id, [by_new_names], now=NOW)

    office.run()

    runs = office.conn.execute("SELECT record_id FROM trigger_run ORDER BY id").fetchall()
    assert runs == [(record_id,) for record_id, _ in office.rows()]


def test_pruning_sets_off_triggers(office):
    line = office.line()
    office.run()
    pruned = [record_id for record_id, _ in office.rows()]
    delete_record(office.conn, office.roster, line.id, now=NOW)
    office.with_trigger("record_deleted")

    office.run(prune=True)

    rows = office.conn.execute("SELECT record_id FROM trigger_run ORDER BY id")
    assert [record_id for (record_id,) in rows] == pruned


def test_a_chain_of_triggers_is_cut(office):
    office.with_trigger("record_created")
    office.line()

    assert detail_of(office, depth=MAX_DEPTH).startswith("a chain of triggers is cut")


def test_a_step_ends_between_two_starts_and_the_next_goes_on_there(office, monkeypatch):
    monkeypatch.setattr(materialize_slots, "SLOTS_OF_A_STEP", 3)
    for who in ("ann", "bob"):
        office.line(who=who, weekday=[2, 3], end="10:30")
    horizon = {"horizon_days": 3}

    first = execute(office.config(**horizon), office.context())

    assert first == Unfinished(
        progress={"created": 2, "kept": 0, "pruned": 0, "until": "2026-12-01 09:30"},
        detail="slots are made up to 2026-12-01 09:30",
    )
    assert office.run(**horizon) == counts(created=10, kept=2)
    assert office.run(prune=True, **horizon) == counts(kept=12)


def test_a_step_ends_where_there_are_many_slots_that_the_roster_has_lost(office, monkeypatch):
    lines = [office.line(who=who, end="10:30") for who in ("ann", "bob")]
    office.run()
    office.line(who="zoe", start="23:00", end="24:00")
    for line in lines:
        delete_record(office.conn, office.roster, line.id, now=NOW)
    monkeypatch.setattr(materialize_slots, "SLOTS_OF_A_STEP", 3)

    first = execute(office.config(prune=True), office.context())

    assert first == Unfinished(
        progress={"created": 0, "kept": 0, "pruned": 2, "until": "2026-12-01 09:30"},
        detail="slots are made up to 2026-12-01 09:30",
    )
    assert office.run(prune=True) == counts(created=2, pruned=4)
    assert office.told() == ["12-01 23:00 zoe open", "12-01 23:30 zoe open"]


def test_slots_that_begin_together_are_looked_at_together(office, monkeypatch):
    for who in ("ann", "bob", "eve"):
        office.line(who=who)
    office.run()
    monkeypatch.setattr(materialize_slots, "SLOTS_OF_A_STEP", 1)

    first = execute(office.config(), office.context())

    assert first.progress == {"created": 0, "kept": 3, "pruned": 0, "until": "2026-12-01 09:30"}
    assert office.run() == counts(kept=6)


def test_triggers_of_the_slots_make_the_steps_smaller(office, monkeypatch):
    monkeypatch.setattr(materialize_slots, "SLOTS_OF_A_STEP", 2)
    office.with_trigger("record_created")
    office.line(end="10:30")

    assert execute(office.config(), office.context()).progress["created"] == 1


def test_more_rows_than_are_read_are_refused(office, monkeypatch):
    monkeypatch.setattr(materialize_slots, "MAX_ROWS", 1)
    office.line()
    office.line()

    assert detail_of(office) == "the roster has more rows than are read at most: 1"


def test_longer_rows_than_are_read_are_refused(office, monkeypatch):
    monkeypatch.setattr("shared.queries.records.MAX_CHARACTERS", 10)
    office.line()

    assert detail_of(office) == "the roster has more characters than are read at most: 8000000"


def test_tables_are_checked_again_when_it_runs(office):
    office.line()
    edited = replace(office.slots, columns=SLOTS[1:])
    office.slots = update_definition(office.conn, edited, now=NOW)

    assert detail_of(office) == ("materialize_slots target resource: the table has no column 'who'")


def test_a_table_whose_approval_is_required_takes_no_slots(office):
    office.slots = office.a_table("reviewed", SLOTS, approval="required")

    assert detail_of(office).startswith(
        "materialize_slots cannot write into a table whose approval is required"
    )


def test_a_trashed_table_is_none(office):
    trash_table(office.conn, office.roster.id, now=NOW)

    assert detail_of(office) == "materialize_slots roster table_id names no table of this tenant"


def test_a_table_of_another_tenant_is_none(office, caller):
    other = a_workspace(office.conn, caller, name="other")
    roster = office.a_table("theirs", LINES, tenant=other.tenant)

    assert detail_of(office, roster=roster) == (
        "materialize_slots roster table_id names no table of this tenant"
    )


def in_session(office, conn, **changes):
    """Execute on another session, to the end of its first step."""
    context = replace(office.context(), connect=lambda: nullcontext(conn))
    return execute(office.config(**changes), context)


def test_two_that_make_the_same_slots_make_them_once(office, other_conn):
    office.line()

    with ThreadPoolExecutor(1) as pool:
        with office.conn.transaction():
            first = office.run()
            second = pool.submit(in_session, office, other_conn)
            assert wait_until(lambda: waits_for_a_lock(office.conn), seconds=10)
        assert first == counts(created=2)
        assert second.result() == counts(kept=2)
    assert len(office.rows()) == 2


def test_a_slot_that_is_taken_while_it_is_being_pruned_stays(office, other_conn):
    line = office.line()
    office.run()
    delete_record(office.conn, office.roster, line.id, now=NOW)

    with ThreadPoolExecutor(1) as pool:
        with office.conn.transaction():
            office.change(0, status="taken")
            late = pool.submit(in_session, office, other_conn, prune=True)
            assert wait_until(lambda: waits_for_a_lock(office.conn), seconds=10)
        assert late.result() == counts(pruned=1)
    assert office.told() == ["12-01 09:00 ann taken"]


def test_who_takes_a_slot_that_has_just_been_pruned_finds_it_gone(office, other_conn):
    line = office.line()
    office.run()
    [taken, _] = office.rows()
    delete_record(office.conn, office.roster, line.id, now=NOW)
    cells = read_cells({"status": "taken"}, office.slots.columns)

    with ThreadPoolExecutor(1) as pool:
        with office.conn.transaction():
            office.run(prune=True)
            late = pool.submit(update_record, other_conn, office.slots, taken[0], cells, now=NOW)
            assert wait_until(lambda: waits_for_a_lock(office.conn), seconds=10)
        with pytest.raises(NotFound):
            late.result()
    assert office.rows() == []


def test_slots_stand_in_the_due_index_until_they_are_pruned(office):
    line = office.line()
    soon = {
        "on": "schedule",
        "schedule": {"type": "date_column_reached", "column": "start", "offset_minutes": -60},
        "actions": [{"type": "delete_record"}],
    }
    office.slots = set_triggers(office.conn, office.slots.id, [soon], now=NOW)

    def due():
        rows = office.conn.execute("SELECT record_id, fire_at FROM due_value ORDER BY fire_at")
        return rows.fetchall()

    office.run()
    # Cells are read as UTC.
    assert due() == [
        (office.rows()[0][0], datetime(2026, 12, 1, 8, 0, tzinfo=UTC)),
        (office.rows()[1][0], datetime(2026, 12, 1, 8, 30, tzinfo=UTC)),
    ]
    delete_record(office.conn, office.roster, line.id, now=NOW)
    office.run(prune=True)

    assert due() == []
