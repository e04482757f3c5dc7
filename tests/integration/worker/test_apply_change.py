"""An approved change is applied once, or it fails with the reason; the worker survives either."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from services.worker.apply_change import apply_change
from services.worker.steps import HandBack
from shared.domain.columns import Column
from shared.domain.work import Reference
from shared.effects.record_writes import MAX_DEPTH, update_record
from shared.lifecycle import wait_until
from shared.observability import metrics
from shared.queries import approved_changes, staged_changes
from shared.queries.change_lists import get_change
from shared.queries.records import find_record
from shared.usecases.manage_tables import alter_table, trash_table
from shared.usecases.set_scp_rules import set_scp_rules
from tests.builders_db import (
    COLUMNS,
    LONG_AGO,
    NOW,
    insert_records,
    insert_state,
    insert_table,
    trigger_id,
)
from tests.builders_staged import insert_change, insert_delete, insert_update
from tests.integration.usecases.world import waits_for_a_lock
from tests.integration.worker.runs import notify

DUE = "trg_00000000000d"
EVENTS = ("record_created", "record_updated", "record_deleted")
TRIGGERS = [
    {"id": trigger_id(number), "name": on, "enabled": True, "on": on, "when": []}
    | {"actions": [notify()]}
    for number, on in enumerate(EVENTS, start=1)
]
AT_DATE = {
    "id": DUE,
    "name": "due",
    "enabled": True,
    "on": "schedule",
    "schedule": {"type": "date_column_reached", "column": "due", "offset_minutes": 0},
    "when": [],
    "actions": [notify()],
}

pytestmark = pytest.mark.usefixtures("nothing_broken")


@pytest.fixture
def table(conn):
    return insert_table(conn, approval="required")


@pytest.fixture
def record(conn, table):
    (record,) = insert_records(conn, table, [{"c1": "old", "c3": 1}])
    return record


def offer(conn, change_id):
    """The change as a worker is offered it."""
    token = conn.execute("SELECT token FROM staged_change WHERE id = %s", [change_id]).fetchone()[0]
    (offered,) = approved_changes.list_approved(conn, [Reference(change_id, token)])
    return offered


def outcome(conn, table, change_id):
    change = get_change(conn, table, change_id)
    return change.status, change.error


def runs_of(conn):
    rows = conn.execute("SELECT kind, record_id, depth, identity FROM trigger_run ORDER BY id")
    return rows.fetchall()


# what is written


def test_a_record_is_made(bench, conn, table):
    change_id = insert_change(conn, table, status="approved", proposed=Jsonb({"c1": "new"}))

    bench.execute()

    change = get_change(conn, table, change_id)
    assert (change.status, change.error) == ("applied", None)
    assert find_record(conn, table, change.record_id).data == {"c1": "new"}


def test_cells_are_written_and_the_others_stay(bench, conn, table, record):
    change_id = insert_update(conn, table, record, cells={"c1": "new"}, status="approved")

    bench.execute()

    written = find_record(conn, table, record.id)
    assert outcome(conn, table, change_id) == ("applied", None)
    assert (written.data, written.version) == ({"c1": "new", "c3": 1}, 2)


def test_a_record_is_deleted(bench, conn, table, record):
    change_id = insert_delete(conn, table, record, status="approved")

    bench.execute()

    assert outcome(conn, table, change_id) == ("applied", None)
    assert find_record(conn, table, record.id) is None


def test_the_write_fires_as_any_of_an_action(bench, conn):
    table = insert_table(conn, approval="required", triggers=[*TRIGGERS, AT_DATE])
    state = insert_state(conn, table, trigger_id=DUE)
    first, second = insert_records(conn, table, [{}, {}])
    depth = {"status": "approved", "depth": 3}
    insert_change(conn, table, proposed=Jsonb({"c2": "2099-01-01"}), **depth)
    insert_update(conn, table, first, **depth)
    insert_delete(conn, table, second, **depth)

    for held in bench.claim():
        bench.executor.execute(held)

    made = conn.execute("SELECT max(id) FROM record").fetchone()[0]
    assert runs_of(conn) == [
        ("record_created", made, 3, "record_created:1"),
        ("record_updated", first.id, 3, "record_updated:2"),
        ("record_deleted", second.id, 3, "record_deleted:2"),
    ]
    index = conn.execute("SELECT trigger_ref, record_id FROM due_value").fetchall()
    assert index == [(state.ref, made)]


def test_a_table_that_no_longer_asks_is_written_all_the_same(bench, conn, table):
    change_id = insert_change(conn, table, status="approved")
    alter_table(conn, table.id, approval="none", now=NOW)

    bench.execute()

    assert outcome(conn, table, change_id) == ("applied", None)


def test_what_nobody_approved_is_not_written(bench, conn, table):
    for status in ("pending", "rejected", "failed"):
        insert_change(conn, table, status=status)

    bench.execute()

    assert conn.execute("SELECT count(*) FROM record").fetchone() == (0,)


# what cannot be written


def _edited(conn, table, record):
    update_record(conn, table, record.id, {"c3": 2}, now=NOW)


def _deleted(conn, table, record):
    conn.execute("UPDATE record SET deleted_at = %s, version = 2", [NOW])


def _trashed(conn, table, record):
    trash_table(conn, table.id, now=NOW)


def _ruled(conn, table, record):
    conn.execute("UPDATE custom_table SET channel_id = tenant_id WHERE id = %s", [table.id])
    rules = [{"operations": ["read"], "chatrooms": [str(table.id)]}]
    set_scp_rules(conn, table.id, rules, now=NOW)


def _dropped(conn, table, record):
    columns = [column.to_json() for column in COLUMNS if column.id != "c1"]
    alter_table(conn, table.id, raw_columns=columns, now=NOW)


def _retyped(conn, table, record):
    title = Column(id="c1", name="title", type="number")
    columns = [column.to_json() for column in (title, *COLUMNS[1:])]
    alter_table(conn, table.id, raw_columns=columns, now=NOW)


@pytest.mark.parametrize("insert", [insert_update, insert_delete])
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_edited, "conflict: record {id} has changed since (version 1 then, 2 now)"),
        (_deleted, "record {id} no longer exists"),
        (_trashed, "the table no longer exists"),
        (
            _ruled,
            "table 'orders' has channel SCP rules: "
            "an action has no acting chatroom and so cannot meet the channel floor",
        ),
    ],
)
def test_what_has_changed_since_is_not_overwritten(
    bench, conn, table, record, insert, spoil, error
):
    change_id = insert(conn, table, record, status="approved")
    spoil(conn, table, record)
    before = conn.execute("SELECT to_jsonb(record) FROM record").fetchone()

    bench.execute()

    assert outcome(conn, table, change_id) == ("failed", error.format(id=record.id))
    assert conn.execute("SELECT to_jsonb(record) FROM record").fetchone() == before


@pytest.mark.parametrize("operation", ["create", "update"])
@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (_dropped, "a column of the change was dropped since"),
        (_retyped, "column 'title' takes a number"),
    ],
)
def test_cells_that_no_longer_fit_are_not_written(
    bench, conn, table, record, operation, spoil, error
):
    if operation == "create":
        change_id = insert_change(conn, table, status="approved")
    else:
        change_id = insert_update(conn, table, record, status="approved")
    spoil(conn, table, record)

    bench.execute()

    assert outcome(conn, table, change_id) == ("failed", error)
    assert conn.execute("SELECT id, version FROM record").fetchall() == [(record.id, 1)]


def test_a_renamed_column_is_written_under_its_new_name(bench, conn, table, record):
    change_id = insert_update(conn, table, record, status="approved")
    renamed = [{**column.to_json(), "name": f"new {column.name}"} for column in COLUMNS]
    alter_table(conn, table.id, raw_columns=renamed, now=NOW)

    bench.execute()

    assert outcome(conn, table, change_id) == ("applied", None)


def test_of_two_changes_of_one_version_the_second_is_a_conflict(bench, conn, table, record):
    ids = [
        insert_update(conn, table, record, cells={column: 7 if column == "c3" else "x"})
        for column in ("c1", "c3")
    ]
    for change_id in ids:
        staged_changes.approve(conn, table, change_id, reviewed_by=None, reason=None, now=LONG_AGO)

    bench.execute()

    outcomes = [outcome(conn, table, change_id)[0] for change_id in ids]
    assert sorted(outcomes) == ["applied", "failed"]
    assert find_record(conn, table, record.id).version == 2


def test_a_chain_is_cut_at_its_depth(bench, conn):
    table = insert_table(conn, approval="required", triggers=TRIGGERS)
    change_id = insert_change(conn, table, status="approved", depth=MAX_DEPTH + 1)

    bench.execute()

    status, error = outcome(conn, table, change_id)
    assert status == "failed"
    assert error.startswith("a chain of triggers is cut at depth 8")
    assert runs_of(conn) == []


def test_what_the_database_does_not_take_fails_and_does_not_come_for_ever(bench, conn, table):
    change_id = insert_change(conn, table, status="approved")
    conn.execute("ALTER TABLE record ADD CHECK (NOT data ? 'c1')")

    bench.execute()

    status, error = outcome(conn, table, change_id)
    assert status == "failed"
    assert "violates check constraint" in error


# races


def test_offered_twice_it_is_applied_once(bench, conn, table, record):
    change_id = insert_update(conn, table, record, status="approved")
    offered = offer(conn, change_id)

    for _ in range(2):
        apply_change(conn, offered, now=NOW)

    assert outcome(conn, table, change_id) == ("applied", None)
    assert find_record(conn, table, record.id).version == 2


@pytest.mark.parametrize("insert", [insert_change, insert_update])
def test_of_two_workers_at_once_one_applies_it(conn, other_conn, table, record, insert):
    own = (table, record) if insert is insert_update else (table,)
    change_id = insert(conn, *own, status="approved")
    offered = offer(conn, change_id)

    with conn.transaction():
        apply_change(conn, offered, now=NOW)
        apply_change(other_conn, offered, now=NOW)

    assert outcome(conn, table, change_id) == ("applied", None)
    assert conn.execute("SELECT sum(version) FROM record").fetchone() == (2,)


def test_an_edit_that_was_first_wins(conn, other_conn, table, record):
    change_id = insert_update(conn, table, record, status="approved")

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            update_record(conn, table, record.id, {"c1": "mine"}, now=NOW)
            late = pool.submit(apply_change, other_conn, offer(conn, change_id), now=NOW)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=30)
        late.result()

    assert outcome(conn, table, change_id) == (
        "failed",
        f"conflict: record {record.id} has changed since (version 1 then, 2 now)",
    )
    assert find_record(conn, table, record.id).data["c1"] == "mine"


def test_an_edit_that_came_second_writes_upon_what_was_applied(conn, other_conn, table, record):
    change_id = insert_update(conn, table, record, status="approved")

    with ThreadPoolExecutor(1) as pool:
        with conn.transaction():
            apply_change(conn, offer(conn, change_id), now=NOW)
            late = pool.submit(update_record, other_conn, table, record.id, {"c3": 5}, now=NOW)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=30)
        assert late.result().version == 3

    assert outcome(conn, table, change_id) == ("applied", None)
    assert find_record(conn, table, record.id).data == {"c1": "proposed", "c3": 5}


def test_a_lock_that_is_not_to_be_had_leaves_it_to_its_age(conn, other_conn, table, record):
    change_id = insert_update(conn, table, record, status="approved")
    offered = offer(conn, change_id)
    other_conn.execute("SET lock_timeout = '50ms'")
    retries = metrics.RETRIES.labels(kind="staged_change", type="")._value
    before = retries.get()

    with conn.transaction():
        conn.execute("SELECT FROM record WHERE id = %s FOR UPDATE", [record.id])
        apply_change(other_conn, offered, now=NOW)

    assert outcome(conn, table, change_id) == ("approved", None)
    apply_change(other_conn, offered, now=NOW)
    assert outcome(conn, table, change_id) == ("applied", None)
    assert retries.get() == before + 1


# the worker


def test_a_change_that_was_handed_back_is_due_at_once(bench, conn, table):
    change_id = insert_change(conn, table, status="approved")
    (held,) = bench.claim()
    assert bench.claim() == []

    assert bench.committer.submit(HandBack(work=held.work)).result()

    assert [again.work.id for again in bench.claim()] == [change_id]
    change = get_change(conn, table, change_id)
    assert (change.status, change.announcements) == ("approved", 1)


def test_what_a_worker_did_not_come_to_is_offered_again_by_its_age(bench, conn, table):
    change_id = insert_change(conn, table, status="approved")
    assert len(bench.claim()) == 1
    assert bench.claim() == []

    conn.execute("UPDATE staged_change SET announce_at = announce_at - %s", [timedelta(seconds=61)])
    bench.execute()

    change = get_change(conn, table, change_id)
    assert (change.status, change.announcements) == ("applied", 2)


def test_what_was_offered_twice_to_one_worker_is_let_go_twice(bench, conn, table):
    change_id = insert_change(conn, table, status="approved")
    (first,) = bench.claim()
    reference = Reference(change_id, first.work.lease_token)
    (again,) = bench.claimer.claim("staged_change", [reference])
    second = bench.holdings.get(again)

    bench.executor.execute(first)
    assert bench.holdings.all() == [second]
    bench.executor.execute(second)

    assert bench.holdings.all() == []
    assert outcome(conn, table, change_id) == ("applied", None)
