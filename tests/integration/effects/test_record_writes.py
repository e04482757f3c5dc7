from datetime import UTC, datetime, timedelta
from itertools import takewhile

import pytest
from psycopg.errors import LockNotAvailable

from shared.domain.columns import MAX_RECORD
from shared.domain.definitions import definition_body, definition_hash
from shared.effects.record_writes import (
    MAX_DEPTH,
    ChainTooDeep,
    create_records,
    delete_record,
    restore_record,
    update_record,
)
from shared.errors import Conflict, InvalidInput, NotFound, StaleVersion
from shared.queries.records import find_record
from tests.builders import a_column
from tests.builders_db import (
    NOW,
    insert_records,
    insert_state,
    insert_table,
    row_of,
    trigger_id,
)

SOON = "2026-07-25 09:00"
LATER = "2026-12-24 18:00"
LATER_AT = datetime(2026, 12, 24, 18, 0, tzinfo=UTC)


def _stored(on, **more):
    """Return a trigger in stored form."""
    form = {"id": trigger_id(), "name": "", "enabled": True, "on": on}
    return form | {"when": [], "actions": [{"type": "notify"}]} | more


def _dated(**more):
    schedule = {"type": "date_column_reached", "column": "due"} | more.pop("schedule", {})
    form = _stored("schedule", **more)
    return {**form, "schedule": schedule}


def _table(conn, *triggers):
    """Insert a table with these triggers, and the states of those on a schedule."""
    table = insert_table(conn, triggers=list(triggers))
    for trigger in triggers:
        if "schedule" in trigger:
            insert_state(conn, table, trigger_id=trigger["id"], kind=trigger["schedule"]["type"])
    return table


def _runs(conn):
    return conn.execute(
        "SELECT trigger_id, kind, record_id, identity, snapshot FROM trigger_run ORDER BY id"
    ).fetchall()


def _entries(conn):
    return conn.execute(
        "SELECT record_id, version, fire_at FROM due_value ORDER BY record_id"
    ).fetchall()


@pytest.fixture
def heard(conn, other_conn):
    """Return what tells the channels that were notified so far."""
    for channel in ("duebook_work", "duebook_due", "the_end"):
        other_conn.execute(f"LISTEN {channel}")

    def channels():
        conn.execute("NOTIFY the_end")
        notifies = other_conn.notifies(timeout=10)
        return set(takewhile(lambda channel: channel != "the_end", (n.channel for n in notifies)))

    return channels


def test_created_records_come_back_in_their_order_with_their_ids(conn):
    table = _table(conn)

    records = create_records(conn, table, [{"c1": "a"}, {"c1": "b"}], now=NOW)

    assert [record.data for record in records] == [{"c1": "a"}, {"c1": "b"}]
    assert records[0].id < records[1].id
    assert [find_record(conn, table, record.id) for record in records] == records


def test_creating_nothing_is_allowed(conn):
    assert create_records(conn, _table(conn, _stored("record_created")), [], now=NOW) == []


@pytest.mark.parametrize(
    "text", ["案件名稱", 'a "quoted" \\ line\n\tbreak', "{}", "\u2028", "it's 100 % %s %(x)s"]
)
def test_any_text_is_kept_as_it_is(conn, text):
    table = _table(conn)

    (record,) = create_records(conn, table, [{"c1": text}], now=NOW)

    assert find_record(conn, table, record.id).data == {"c1": text}


def test_a_created_record_fires_the_triggers_it_matches(conn, heard):
    small = _stored("record_created", when=[{"column": "amount", "op": "lt", "value": 10}])
    every = _stored("record_created")
    table = _table(conn, small, every, _stored("record_updated"))

    first, second = create_records(conn, table, [{"c3": 5}, {"c3": 50}], now=NOW)

    assert _runs(conn) == [
        (small["id"], "record_created", first.id, "record_created:1", {"c3": 5}),
        (every["id"], "record_created", first.id, "record_created:1", {"c3": 5}),
        (every["id"], "record_created", second.id, "record_created:1", {"c3": 50}),
    ]
    assert heard() == {"duebook_work"}


def test_event_runs_are_urgent_due_at_once_and_name_their_definition(conn):
    trigger = _stored("record_created")
    table = _table(conn, trigger)

    create_records(conn, table, [{"c1": "a"}], now=NOW, depth=3)

    found = conn.execute(
        "SELECT urgent, depth, announcements, announce_at, next_attempt_at, scheduled_for"
        " FROM trigger_run"
    ).fetchone()
    assert found == (True, 3, 0, NOW, NOW, NOW)
    body = definition_body(trigger, table.columns)
    assert conn.execute("SELECT hash, body FROM definition").fetchall() == [
        (definition_hash(body), body)
    ]


def test_a_disabled_or_broken_trigger_fires_nothing(conn, heard):
    table = _table(
        conn,
        _stored("record_created", enabled=False),
        _stored("record_created", when=[{"column": "gone", "op": "not_empty"}]),
    )

    create_records(conn, table, [{"c1": "a"}], now=NOW)

    assert _runs(conn) == []
    assert heard() == set()


def test_an_update_raises_the_version_and_keeps_other_cells(conn):
    table = _table(conn)
    (record,) = insert_records(conn, table, [{"c1": "a", "c3": 1}])

    written = update_record(conn, table, record.id, {"c3": 2}, now=NOW)

    assert (written.version, written.data) == (2, {"c1": "a", "c3": 2})
    assert (written.created_at, written.updated_at) == (record.created_at, NOW)
    assert find_record(conn, table, record.id) == written


def test_changed_compares_with_the_cells_before_the_update(conn):
    trigger = _stored("record_updated", when=[{"column": "title", "op": "changed"}])
    table = _table(conn, trigger)
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    update_record(conn, table, record.id, {"c1": "a", "c3": 1}, now=NOW)
    update_record(conn, table, record.id, {"c1": "b"}, now=NOW)

    assert _runs(conn) == [
        (trigger["id"], "record_updated", record.id, "record_updated:3", {"c1": "b", "c3": 1})
    ]


def test_an_update_of_another_version_than_expected_changes_nothing(conn):
    table = _table(conn, _stored("record_updated"))
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    with pytest.raises(StaleVersion):
        update_record(conn, table, record.id, {"c1": "b"}, now=NOW, expected_version=2)

    assert find_record(conn, table, record.id) == record
    assert _runs(conn) == []


def test_an_update_does_not_make_a_record_larger_than_one_may_be_created(conn):
    columns = [a_column(id=f"c{n}", name=str(n), type="json") for n in range(4)]
    table = insert_table(conn, columns=columns)
    large = "x" * (MAX_RECORD // 3)
    [record] = create_records(conn, table, [{f"c{n}": large for n in range(3)}], now=NOW)

    with pytest.raises(InvalidInput) as refused:
        update_record(conn, table, record.id, {"c3": large}, now=NOW)

    assert refused.value.code == "record_too_large"
    assert find_record(conn, table, record.id) == record
    assert update_record(conn, table, record.id, {"c0": None, "c3": large}, now=NOW).version == 2


def test_a_deleted_record_fires_with_its_last_cells_and_is_gone(conn):
    trigger = _stored("record_deleted")
    table = _table(conn, trigger)
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    delete_record(conn, table, record.id, now=NOW)

    assert _runs(conn) == [
        (trigger["id"], "record_deleted", record.id, "record_deleted:2", {"c1": "a"})
    ]
    assert find_record(conn, table, record.id) is None
    assert row_of(conn, "record", record.id)["data"] == {"c1": "a"}


def test_a_deleted_record_can_be_neither_changed_nor_deleted_again(conn):
    table = _table(conn, _stored("record_deleted"))
    (record,) = insert_records(conn, table, [{"c1": "a"}])
    delete_record(conn, table, record.id, now=NOW)

    with pytest.raises(NotFound):
        update_record(conn, table, record.id, {"c1": "b"}, now=NOW)
    with pytest.raises(NotFound):
        delete_record(conn, table, record.id, now=NOW)

    assert len(_runs(conn)) == 1


def test_a_restored_record_is_back_without_an_event(conn):
    table = _table(conn, *(_stored(f"record_{what}") for what in ("created", "updated")))
    (record,) = insert_records(conn, table, [{"c1": "a"}], deleted_at=NOW)

    restored = restore_record(conn, table, record.id, now=NOW)

    assert (restored.version, restored.deleted_at) == (2, None)
    assert _runs(conn) == []


def test_only_a_deleted_record_can_be_restored(conn):
    table = _table(conn)
    (record,) = insert_records(conn, table, [{"c1": "a"}])

    with pytest.raises(Conflict, match="is not deleted"):
        restore_record(conn, table, record.id, now=NOW)
    with pytest.raises(NotFound):
        restore_record(conn, table, record.id + 1, now=NOW)


def test_a_record_of_another_table_is_not_found(conn):
    (record,) = insert_records(conn, insert_table(conn), [{"c1": "a"}])
    table = _table(conn)

    with pytest.raises(NotFound):
        update_record(conn, table, record.id, {"c1": "b"}, now=NOW)
    with pytest.raises(NotFound):
        delete_record(conn, table, record.id, now=NOW)


def test_a_chain_may_be_eight_triggers_deep(conn):
    table = _table(conn, _stored("record_created"))

    create_records(conn, table, [{}], now=NOW, depth=MAX_DEPTH)

    assert len(_runs(conn)) == 1


@pytest.mark.parametrize("event", ["record_created", "record_updated", "record_deleted"])
def test_a_chain_that_gets_too_deep_is_cut_and_writes_nothing(conn, event):
    table = _table(conn, _stored(event))
    (record,) = insert_records(conn, table, [{"c1": "a"}])
    write = {
        "record_created": lambda **how: create_records(conn, table, [{}], **how),
        "record_updated": lambda **how: update_record(conn, table, record.id, {"c1": "b"}, **how),
        "record_deleted": lambda **how: delete_record(conn, table, record.id, **how),
    }[event]

    with pytest.raises(ChainTooDeep, match="cut at depth 8"):
        write(now=NOW, depth=MAX_DEPTH + 1)

    assert conn.execute("SELECT count(*) FROM record").fetchone() == (1,)
    assert find_record(conn, table, record.id) == record


def test_a_deep_write_that_fires_nothing_is_no_chain(conn):
    table = _table(conn, _stored("record_deleted"))

    assert len(create_records(conn, table, [{}], now=NOW, depth=MAX_DEPTH + 1)) == 1


def test_a_record_with_an_origin_is_made_once(conn, other_conn):
    table = _table(conn, _stored("record_created"))

    (first,) = create_records(conn, table, [{"c1": "a"}], now=NOW, origin_key="key")
    (again,) = create_records(other_conn, table, [{"c1": "b"}], now=NOW, origin_key="key")

    assert (again.id, again.data) == (first.id, {"c1": "a"})
    assert len(_runs(conn)) == 1


def test_an_origin_belongs_to_its_table(conn):
    one, other = _table(conn), _table(conn)

    (first,) = create_records(conn, one, [{}], now=NOW, origin_key="key")
    (second,) = create_records(conn, other, [{}], now=NOW, origin_key="key")

    assert first.id != second.id


def test_a_date_that_lies_ahead_enters_the_due_index(conn, heard):
    table = _table(conn, _dated(schedule={"offset_minutes": -60}))

    record, _ = create_records(conn, table, [{"c2": LATER}, {"c2": "no date"}], now=NOW)

    assert _entries(conn) == [(record.id, 1, LATER_AT - timedelta(hours=1))]
    assert heard() == set()


def test_what_comes_due_within_seconds_wakes_the_scanner(conn, heard):
    table = _table(conn, _dated())

    create_records(conn, table, [{"c2": SOON}], now=NOW - timedelta(seconds=3))

    assert heard() == {"duebook_due"}


def test_disabled_date_triggers_are_indexed_and_retired_ones_are_not(conn):
    disabled, retired = _dated(enabled=False), _dated()
    table = _table(conn, disabled, retired)
    conn.execute(
        "UPDATE trigger_state SET retired_at = %s WHERE trigger_id = %s", [NOW, retired["id"]]
    )

    create_records(conn, table, [{"c2": LATER}], now=NOW)

    assert len(_entries(conn)) == 1


def test_an_update_moves_the_entry_of_the_record(conn):
    table = _table(conn, _dated())
    (record,) = create_records(conn, table, [{"c2": SOON}], now=NOW)

    update_record(conn, table, record.id, {"c2": LATER}, now=NOW)

    assert _entries(conn) == [(record.id, 2, LATER_AT)]


@pytest.mark.parametrize("cell", [None, "", "tomorrow"])
def test_a_record_without_a_date_leaves_the_due_index(conn, cell):
    table = _table(conn, _dated())
    record, other = create_records(conn, table, [{"c2": LATER}] * 2, now=NOW)

    update_record(conn, table, record.id, {"c2": cell}, now=NOW)

    assert [entry[0] for entry in _entries(conn)] == [other.id]


def test_a_deleted_record_leaves_the_due_index_and_a_restored_one_returns(conn):
    table = _table(conn, _dated())
    (record,) = create_records(conn, table, [{"c2": LATER}], now=NOW)

    delete_record(conn, table, record.id, now=NOW)
    assert _entries(conn) == []

    restore_record(conn, table, record.id, now=NOW)
    assert _entries(conn) == [(record.id, 3, LATER_AT)]


def test_a_write_is_rolled_back_with_its_callers_transaction(conn):
    table = _table(conn, _stored("record_created"), _dated())

    with conn.transaction(force_rollback=True):
        create_records(conn, table, [{"c2": LATER}], now=NOW)

    assert (_runs(conn), _entries(conn)) == ([], [])
    assert conn.execute("SELECT count(*) FROM record").fetchone() == (0,)


def test_two_updates_of_one_record_follow_each_other(conn, other_conn):
    table = _table(conn, _stored("record_updated"))
    (record,) = insert_records(conn, table, [{"c1": "a", "c3": 1}])
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        update_record(conn, table, record.id, {"c1": "b"}, now=NOW)
        with pytest.raises(LockNotAvailable):
            update_record(other_conn, table, record.id, {"c3": 2}, now=NOW)
    update_record(other_conn, table, record.id, {"c3": 2}, now=NOW)

    assert find_record(conn, table, record.id).data == {"c1": "b", "c3": 2}
    assert [run[3] for run in _runs(conn)] == ["record_updated:2", "record_updated:3"]


def test_a_batch_beyond_the_size_of_a_statement_is_written_whole(conn, monkeypatch):
    monkeypatch.setattr("shared.queries.records._STATEMENT_BYTES", 30)
    table = _table(conn)

    records = create_records(conn, table, [{"c3": number} for number in range(9)], now=NOW)

    assert [record.data["c3"] for record in records] == list(range(9))
    assert [record.id for record in records] == sorted(record.id for record in records)
