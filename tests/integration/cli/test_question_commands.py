"""``simulate``, ``why``, ``timeline``, and the next windows of ``preview``."""

import json

import pytest

from shared.db.clock import server_now
from shared.domain.on_existing import OnExisting
from shared.effects.record_writes import create_records
from shared.queries.custom_tables import get_table
from shared.usecases.manage_tables import alter_table
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tick import tick
from tests.builders import AN_ACTION
from tests.builders_db import insert_table

CLOCK_ID, DATE_ID, EVENT_ID = (f"trg_00000000000{digit}" for digit in "abc")
TRIGGERS = [
    {
        "id": CLOCK_ID,
        "name": "morning",
        "on": "schedule",
        "schedule": {"type": "daily", "at": "09:00", "timezone": "Asia/Taipei"},
        "actions": [AN_ACTION],
    },
    {
        "id": DATE_ID,
        "name": "remind",
        "on": "schedule",
        "schedule": {"type": "date_column_reached", "column": "due"},
        "when": [{"column": "amount", "op": "gt", "value": 5}],
        "actions": [AN_ACTION],
    },
    {"id": EVENT_ID, "name": "new", "on": "record_created", "actions": [AN_ACTION]},
]


@pytest.fixture
def table(conn, tenant):
    table = insert_table(conn, tenant_id=tenant.id, name="orders")
    return set_triggers(conn, table.id, TRIGGERS, now=server_now(conn))


@pytest.fixture
def records(conn, table):
    rows = [{"c2": "2001-02-03", "c3": amount} for amount in (7, 5)]
    rows += [{"c2": "2999-01-01", "c3": 7}]
    return create_records(conn, get_table(conn, table.id), rows, now=server_now(conn))


def a_file(tmp_path, document):
    path = tmp_path / "triggers.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


@pytest.mark.parametrize("wrap", [list, lambda triggers: {"triggers": triggers}])
def test_simulate_tells_what_a_file_of_triggers_would_do(on_api, tmp_path, table, records, wrap):
    path = a_file(tmp_path, wrap(TRIGGERS))

    told = on_api.told("simulate", path, "--table", "orders")
    shown = on_api.run("simulate", path, "--table", table.id)

    assert [arm["trigger_id"] for arm in told["triggers"]] == [CLOCK_ID, DATE_ID]
    assert told["triggers"][1]["due_now"] == 1
    assert shown.exit_code == 0
    assert "orders: 3 records" in shown.stdout
    assert "0 fired, 1 ahead, 1 not matching, 0 missing, 0 invalid" in shown.stdout
    assert shown.stdout.count(" 09:00 +08:00 ") == 10
    assert shown.stdout.count("\n  morning  ") == 10


def test_simulate_ends_with_1_where_a_save_would_be_refused(on_api, tmp_path, table):
    broken = {**TRIGGERS[0], "schedule": {"type": "daily", "at": "9"}}

    for options in ([], ["--json"]):
        done = on_api.run("simulate", a_file(tmp_path, [broken]), "--table", "orders", *options)
        assert done.exit_code == 1
    shown = on_api.run("simulate", a_file(tmp_path, [broken]), "--table", "orders").stdout
    assert "a save would be refused:\n  /triggers/0/schedule/at: daily schedule at" in shown


@pytest.mark.parametrize("document", ["[", '{"other": 1}', "7"])
def test_simulate_of_no_triggers_is_refused(on_api, tmp_path, table, document):
    done = on_api.run("simulate", a_file(tmp_path, document), "--table", "orders")

    assert done.exit_code == 1
    assert "Error: " in done.stderr


def test_why_tells_the_verdict_and_what_led_to_it(on_api, table, records):
    due, refused, ahead = (record.id for record in records)

    assert on_api.told("why", "orders", "remind", due)["verdict"] == "due_now"
    told = on_api.run("why", "orders", DATE_ID, due).stdout
    assert told.startswith(f"{DATE_ID} fires: it is due\n")
    assert 'due is "2001-02-03": fires at 2001-02-03T00:00:00Z, ' in told
    told = on_api.run("why", "orders", DATE_ID, refused).stdout
    assert told.startswith(f"{DATE_ID} does not fire: a condition does not match\n")
    assert 'when[0] {"op": "gt", "value": 5, "column": "amount"} does not match 5' in told
    told = on_api.run("why", "orders", "remind", ahead).stdout
    assert "does not fire: its time has not come" in told
    assert "last run" in on_api.run("why", "orders", "new", ahead).stdout


def test_why_of_a_clock_and_of_a_run(on_api, conn, table, records):
    tick(conn)

    clock = on_api.run("why", "orders", "morning").stdout
    dated = on_api.run("why", "orders", "remind", records[0].id).stdout

    assert clock.startswith(f"{CLOCK_ID} does not fire: its time has not come\n")
    assert "09:00 +08:00, in " in clock
    assert "2001-02-03 00:00 consumed at " in dated
    assert " pending" in dated


def test_timeline_tells_what_was_and_what_comes(on_api, conn, table, records):
    tick(conn)

    told = on_api.told("timeline", "orders", "new")
    shown = on_api.run("timeline", "orders", "remind").stdout
    windows = on_api.run("timeline", "orders", CLOCK_ID, "--limit", 3).stdout
    far = on_api.run("timeline", "orders", "remind", "--from", "2998-12-01T00:00:00Z")

    assert [item["record_id"] for item in told] == [record.id for record in records]
    assert "2001-02-03 00:00" in shown
    assert " pending" in shown
    assert "09:00 +08:00" in windows
    assert far.stdout.startswith("nothing in this time")


def test_timeline_says_what_its_moments_do_not(on_api, conn, table, records):
    drip = OnExisting(mode="drip", per_minute=1)
    unwalked = on_api.run("timeline", "orders", "remind", "--json")
    set_triggers(conn, table.id, [], now=server_now(conn))
    set_triggers(conn, table.id, TRIGGERS, now=server_now(conn), on_existing=drip)
    dripping = on_api.run("timeline", "orders", "remind")
    alter_table(conn, table.id, raw_columns=[], now=server_now(conn))
    broken = on_api.run("timeline", "orders", "remind")

    assert json.loads(unwalked.stdout) == []
    assert unwalked.stderr == "not all rows were looked at yet: more may lie ahead\n"
    assert dripping.stderr.startswith("warnings: backlog_dripping\n")
    nothing = "the trigger is broken, nothing lies ahead: when_column_missing, schedule_column_"
    assert broken.stderr.splitlines()[-1].startswith(nothing)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["why", "orders", "other"], "table 'orders' has no trigger 'other'"),
        (["why", "orders", "trg_ffffffffffff"], "the table has no trigger 'trg_ffffffffffff'"),
        (["why", "orders", "remind"], "say which by record_id"),
        (["why", "nothing", "remind"], "there is no table 'nothing'"),
        (["timeline", "orders", "remind", "--from", "x"], "from must be like"),
    ],
)
def test_what_is_refused(on_api, table, arguments, message):
    done = on_api.run(*arguments)

    assert done.exit_code == 1
    assert message in done.stderr


def test_a_name_of_several_triggers_is_none_of_them(on_api, conn, table):
    twice = [{**TRIGGERS[0], "id": one} for one in (CLOCK_ID, EVENT_ID)]
    set_triggers(conn, table.id, twice, now=server_now(conn))

    done = on_api.run("why", "orders", "morning")

    assert done.exit_code == 1
    assert f"several triggers are named 'morning': {CLOCK_ID}, {EVENT_ID}" in done.stderr


def test_preview_tells_when_a_clock_fires_next(on_api, conn, table):
    told = on_api.run("preview", "orders").stdout

    assert "next window" in told
    assert "09:00 +08:00, in " in told
