"""An action that takes several transactions: each is a step whose receipt says how far it came."""

from datetime import timedelta

import psycopg
import pytest

from shared.actions import materialize_slots
from shared.db.clock import server_now
from shared.domain.columns import Column
from shared.queries import slots
from shared.queries.custom_tables import trash_table
from shared.usecases.set_triggers import set_triggers
from shared.usecases.slots_preview import OF_AN_ACTION, preview_slots
from tests.builders_db import insert_records, insert_table
from tests.integration.worker.runs import notify

LINES = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="day", type="date"),
    Column(id="c3", name="from", type="text"),
    Column(id="c4", name="to", type="text"),
)
SLOTS = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="from", type="datetime"),
    Column(id="c3", name="to", type="datetime"),
    Column(id="c4", name="status", type="select", options=("open",)),
)
ALL = 6
"""Slots of the three days behind today, two on each; two make a step."""


@pytest.fixture(autouse=True)
def slots_of_a_step(monkeypatch):
    monkeypatch.setattr(materialize_slots, "SLOTS_OF_A_STEP", 2)


@pytest.fixture
def target(conn):
    return insert_table(conn, columns=SLOTS, name="slots")


@pytest.fixture
def make_slots(conn, target):
    roster = insert_table(conn, tenant_id=target.tenant_id, columns=LINES, name="roster")
    today = server_now(conn).date()
    days = [(today + timedelta(days=n)).isoformat() for n in (1, 2, 3)]
    lines = [{"c1": "ann", "c2": day, "c3": "09:00", "c4": "11:00"} for day in days]
    insert_records(conn, roster, lines)
    names = {"resource": "who", "start": "from", "end": "to"}
    return {
        "type": "materialize_slots",
        "roster": {"table_id": str(roster.id), "date": "day", **names},
        "target": {"table_id": str(target.id), "status": "status", **names},
        "slot_minutes": 60,
        "horizon_days": 5,
    }


def made(conn, target):
    [(number,)] = conn.execute("SELECT count(*) FROM record WHERE table_id = %s", [target.id])
    return number


@pytest.fixture
def at_insert(monkeypatch):
    """Let something happen before the insert of slots of that number, from 1."""
    insert, calls = slots.insert_slots, []

    def arrange(number, happen):
        def insert_after(*args, **more):
            calls.append(None)
            if len(calls) == number:
                happen()
            return insert(*args, **more)

        monkeypatch.setattr("shared.effects.slot_writes.insert_slots", insert_after)

    return arrange


def raise_busy():
    raise psycopg.errors.DeadlockDetected("deadlock detected")


def test_the_run_goes_on_until_all_is_made(bench, conn, target, make_slots):
    run_id = bench.insert(make_slots, notify("after"), table=target)
    before = made(conn, target)

    bench.execute()

    run = bench.run(run_id)
    assert (run["status"], run["attempts"]) == ("done", 1)
    told = run["action_results"][0]
    assert told | {"ok": True, "created": ALL, "kept": 0, "pruned": 0, "attempts": 1} == told
    assert not {"progress", "unfinished", "detail", "transient"} & {*told}
    assert made(conn, target) == before + ALL
    assert bench.messages() == ["after"]


def test_between_two_steps_it_is_handed_back_and_goes_on_elsewhere(
    make_bench, bench, conn, target, make_slots
):
    run_id = bench.insert(make_slots, table=target)
    before = made(conn, target)
    [held] = bench.claim()
    bench.may_begin = lambda: made(conn, target) == before

    bench.executor.execute(held)
    bench.flush()

    run = bench.run(run_id)
    assert (run["status"], run["attempts"]) == ("pending", 0)
    assert run["action_results"][0]["progress"]["created"] == 2
    assert run["action_results"][0]["detail"].startswith("slots are made up to ")
    make_bench(worker_id=2).execute()
    run = bench.run(run_id)
    assert run["status"] == "done"
    assert run["action_results"][0]["created"] == ALL
    assert made(conn, target) == before + ALL


def test_a_failure_between_loses_no_count(bench, conn, target, make_slots, at_insert):
    at_insert(2, raise_busy)
    run_id = bench.insert(make_slots, table=target)

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "pending"
    told = run["action_results"][0]
    assert (told["detail"], told["transient"]) == ("deadlock detected", True)
    assert told["progress"]["created"] == 2
    bench.again(run_id)
    bench.execute()
    run = bench.run(run_id)
    assert (run["status"], run["attempts"]) == ("done", 2)
    assert (run["action_results"][0]["created"], run["action_results"][0]["attempts"]) == (ALL, 2)


def test_a_step_of_a_worker_that_was_fenced_out_is_undone(
    make_bench, bench, conn, other_conn, target, make_slots, at_insert
):
    def lose():
        other_conn.execute(
            "UPDATE trigger_run SET status = 'pending', worker_id = NULL, leased_until = NULL,"
            " lease_token = gen_random_uuid(), next_attempt_at = clock_timestamp(),"
            " announce_at = clock_timestamp()"
        )

    at_insert(2, lose)
    run_id = bench.insert(make_slots, table=target)
    before = made(conn, target)

    bench.execute()

    assert made(conn, target) == before + 2
    assert bench.run(run_id)["action_results"][0]["progress"]["created"] == 2
    make_bench(worker_id=2).execute()
    assert bench.run(run_id)["action_results"][0]["created"] == ALL
    assert made(conn, target) == before + ALL


def test_a_failure_that_is_continued_past_ends_the_action(
    bench, conn, target, make_slots, at_insert
):
    make_slots["on_error"] = "continue"
    at_insert(2, lambda: trash_table(conn, target.id, now=server_now(conn)))
    own = insert_table(conn, tenant_id=target.tenant_id)
    run_id = bench.insert(make_slots, notify("after"), table=own)

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert run["error"] == (
        "action 1 (materialize_slots): "
        "materialize_slots target table_id names no table of this tenant"
    )
    assert [told["ok"] for told in run["action_results"]] == [False, True]
    assert bench.messages() == ["after"]


def test_a_delayed_one_takes_its_steps_as_well(bench, conn, target, make_slots):
    run_id = bench.insert({**make_slots, "delay": {"seconds": 60}}, table=target)
    before = made(conn, target)
    bench.execute()
    assert made(conn, target) == before

    bench.hurry()
    bench.execute()

    [action] = bench.actions()
    assert (action["status"], action["run_id"]) == ("done", run_id)
    assert action["action_results"][0]["created"] == ALL


def test_a_preview_looks_at_so_much_and_tells(conn, target, make_slots):
    daily = {"type": "daily", "at": "00:00"}
    trigger = {"on": "schedule", "schedule": daily, "actions": [make_slots, make_slots]}
    own = insert_table(conn, tenant_id=target.tenant_id)
    own = set_triggers(conn, own.id, [trigger], now=server_now(conn))

    def told(most):
        actions = preview_slots(conn, own, now=server_now(conn), most=most)
        return [(action["created"], action["truncated"]) for action in actions]

    # Three lines, and two slots at a time.
    assert told(2 * (OF_AN_ACTION + 3 + ALL)) == [(ALL, False), (ALL, False)]
    assert told(OF_AN_ACTION + 3 + ALL + 1) == [(ALL, False), (0, True)]
    assert told(OF_AN_ACTION + 4) == [(2, True), (None, True)]


def test_a_preview_counts_rows_that_when_leaves_out(conn, target, make_slots):
    nobody = [{"column": "who", "op": "eq", "value": "nobody"}]
    action = {**make_slots, "roster": {**make_slots["roster"], "when": nobody}}

    told = _preview_of_three(conn, target, action, most=2 * (OF_AN_ACTION + 3))

    assert [(one["created"], one["truncated"]) for one in told] == [
        (0, False),
        (0, True),  # no room is left for the days
        (None, True),
    ]


def test_a_preview_counts_rows_of_rosters_that_are_too_large(conn, target, make_slots, monkeypatch):
    monkeypatch.setattr(materialize_slots, "MAX_ROWS", 2)

    told = _preview_of_three(conn, target, make_slots, most=2 * (OF_AN_ACTION + 3))

    too_large = "the roster has more rows than are read at most: 2"
    assert [one["error"] for one in told] == [too_large, too_large, None]
    assert told[2]["truncated"]


def _preview_of_three(conn, target, action, *, most):
    """Preview three actions of one roster, which has three rows."""
    daily = {"type": "daily", "at": "00:00"}
    trigger = {"on": "schedule", "schedule": daily, "actions": [action] * 3}
    own = insert_table(conn, tenant_id=target.tenant_id)
    own = set_triggers(conn, own.id, [trigger], now=server_now(conn))
    return preview_slots(conn, own, now=server_now(conn), most=most)


def test_it_is_not_performed_together_with_others(bench, conn, target, make_slots):
    slow = bench.insert(make_slots, table=target)
    quick = bench.insert(notify("quick"))

    left = bench.executor.execute_together(bench.claim())

    assert [held.work.id for held in left] == [slow]
    assert bench.run(slow)["action_results"] == []
    assert bench.run(quick)["status"] == "done"
