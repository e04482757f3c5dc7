from uuid import uuid4

import pytest

from shared.errors import InvalidInput, NotFound, StaleVersion
from shared.queries.custom_tables import find_table, get_table
from shared.usecases.manage_tables import alter_table, create_table, restore_table, trash_table
from tests.builders_db import (
    NOW,
    insert_table,
    insert_tenant,
)
from tests.integration.usecases.world import (
    AHEAD,
    DATE,
    HOUR,
    OVERDUE,
    a_known,
    arm,
    at,
    created,
    due_index,
    fired,
    hear,
    save,
    state_of,
    stored_triggers,
    write,
)

RAW = [{"name": "title", "type": "text"}, {"name": "due", "type": "datetime"}]


def _create(conn, **parts):
    given = {"channel_id": None, "name": "orders", "raw_columns": RAW, "now": NOW} | parts
    return create_table(conn, tenant_id=parts.get("tenant_id") or insert_tenant(conn), **given)


def _columns(table):
    return [(column.id, column.name, column.type) for column in table.columns]


def _raw(table, **names):
    """Return the columns of a table as an author writes them, some under another name."""
    return [
        {**column.to_json(), "name": names.get(column.name, column.name)}
        for column in table.columns
    ]


def test_a_table_is_created_with_its_columns_and_channel(conn):
    channel = uuid4()

    table = _create(conn, channel_id=channel)

    assert get_table(conn, table.id) == table
    assert (table.channel_id, table.revision, table.created_at) == (channel, 1, NOW)
    assert _columns(table) == [("c1", "title", "text"), ("c2", "due", "datetime")]


@pytest.mark.parametrize("name", ["", "  ", "x" * 201])
def test_a_name_is_not_blank_nor_long(conn, name):
    with pytest.raises(InvalidInput) as caught:
        _create(conn, name=name)

    assert caught.value.faults[0].pointer == "/name"


def test_faults_of_columns_point_into_the_request(conn):
    with pytest.raises(InvalidInput) as caught:
        _create(conn, raw_columns=[*RAW, {"name": "x", "type": "colour"}])

    assert caught.value.faults[0].pointer == "/columns/2/type"


def test_a_table_is_renamed(conn):
    table = insert_table(conn)

    altered = alter_table(conn, table.id, name="invoices", now=NOW)

    assert (altered.name, altered.revision, altered.columns) == ("invoices", 2, table.columns)


def test_nothing_altered_leaves_the_revision(conn):
    table = insert_table(conn)

    same = alter_table(conn, table.id, name=table.name, raw_columns=_raw(table), now=NOW)

    assert same == table


def test_columns_are_renamed_added_dropped_and_given_another_type(conn):
    table = insert_table(conn)

    altered = alter_table(
        conn,
        table.id,
        raw_columns=[
            {"id": "c2", "name": "term", "type": "date"},
            {"name": "title", "type": "text"},
            {"name": "new", "type": "checkbox"},
        ],
        now=NOW,
    )

    assert _columns(altered) == [
        ("c2", "term", "date"),
        ("c1", "title", "text"),
        ("c4", "new", "checkbox"),
    ]


def test_the_id_of_a_dropped_column_is_not_given_again(conn):
    table = insert_table(conn)
    alter_table(conn, table.id, raw_columns=_raw(table)[:2], now=NOW)

    altered = alter_table(
        conn,
        table.id,
        raw_columns=[*_raw(table)[:2], {"name": "amount", "type": "number"}],
        now=NOW,
    )

    assert altered.columns[-1].id == "c4"


def test_a_stale_if_match_and_an_absent_table_are_refused(conn):
    table = insert_table(conn)

    with pytest.raises(StaleVersion):
        alter_table(conn, table.id, name="x", now=NOW, expected_revision=7)
    with pytest.raises(NotFound):
        alter_table(conn, uuid4(), name="x", now=NOW)

    assert get_table(conn, table.id) == table


def test_a_renamed_column_is_renamed_in_the_triggers_and_nothing_fires_again(conn):
    table = insert_table(conn)
    update = {"type": "update_record", "target": "$row", "data": {"title": "${row.due}"}}
    when = [{"column": "due", "op": "not_empty"}]
    save(conn, table, a_known(schedule=DATE, when=when, actions=[update]))
    [_, ahead] = write(conn, table, OVERDUE, AHEAD)
    created(conn)
    before = state_of(conn)

    altered = alter_table(conn, table.id, raw_columns=_raw(table, due="term", title="due"), now=NOW)

    [stored] = altered.triggers
    assert stored["schedule"]["column"] == "term"
    assert stored["when"][0]["column"] == "term"
    assert stored["actions"][0]["data"] == {"due": "${row.term}"}
    state = state_of(conn)
    assert (state.cursor, state.anchor_at) == (before.cursor, before.anchor_at)
    assert created(conn) == 0
    assert created(conn, now=at("2026-07-26 08:00")) == 1
    assert fired(conn)[-1] == (ahead.id, AHEAD)


def test_a_rename_counts_as_no_edit_when_the_trigger_is_saved_under_the_new_name(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, AHEAD)
    created(conn)
    alter_table(conn, table.id, raw_columns=_raw(table, due="term"), now=NOW)
    before = state_of(conn)

    save(conn, table, a_known(schedule={**DATE, "column": "term"}), now=NOW + HOUR)

    assert state_of(conn) == before
    assert before.cursor is not None


def test_a_rename_reaches_the_state_of_a_retired_trigger(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    save(conn, table)

    alter_table(conn, table.id, raw_columns=_raw(table, due="term"), now=NOW)

    assert state_of(conn).schedule["column"] == "term"


def test_the_triggers_of_other_tables_that_write_the_column_are_rewritten(conn):
    table = insert_table(conn)
    action = {"type": "create_record", "table_id": str(table.id), "data": {"title": "x"}}
    live = insert_table(conn, tenant_id=table.tenant_id)
    trashed = insert_table(conn, tenant_id=table.tenant_id)
    for other in (live, trashed):
        save(conn, other, a_known(actions=[action]))
    trash_table(conn, trashed.id, now=NOW)

    alter_table(conn, table.id, raw_columns=_raw(table, title="subject"), now=NOW)

    for other in (live, trashed):
        after = find_table(conn, other.id)
        assert after.triggers[0]["actions"][0]["data"] == {"subject": "x"}
        assert after.revision == (3 if other is live else 4)


def test_what_other_tables_write_when_a_delay_expires_is_rewritten(conn):
    table = insert_table(conn)
    create = {"type": "create_record", "table_id": str(table.id), "data": {"title": "x"}}
    wait = {"mode": "waitForTracking", "expiresSeconds": 60, "trackingLink": "$row.title"}
    other = insert_table(conn, tenant_id=table.tenant_id)
    delete = {"type": "delete_record", "delay": {**wait, "on_expire": [create]}}
    save(conn, other, a_known(schedule=DATE, actions=[delete]))

    alter_table(conn, table.id, raw_columns=_raw(table, title="subject"), now=NOW)

    [action] = find_table(conn, other.id).triggers[0]["actions"]
    assert action["delay"]["on_expire"][0]["data"] == {"subject": "x"}


def test_a_table_that_names_no_renamed_column_keeps_its_revision(conn):
    table = insert_table(conn)
    other = insert_table(conn, tenant_id=table.tenant_id)
    action = {"type": "create_record", "table_id": str(table.id), "data": {"title": "x"}}
    before = save(conn, other, a_known(actions=[action]))

    alter_table(conn, table.id, raw_columns=_raw(table, due="term"), now=NOW)

    assert get_table(conn, other.id) == before


def test_a_trigger_of_a_dropped_column_stays_and_is_told_broken(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))

    alter_table(conn, table.id, raw_columns=[RAW[0]], now=NOW)

    assert len(stored_triggers(conn, table)) == 1
    assert arm(conn, table)["error_codes"] == ["schedule_column_missing"]


def test_another_type_of_the_column_lets_the_walk_begin_anew(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, AHEAD)
    created(conn)
    columns = [{**raw, "type": "date"} if raw["name"] == "due" else raw for raw in _raw(table)]

    alter_table(conn, table.id, raw_columns=columns, now=NOW)

    assert state_of(conn).cursor is None
    created(conn)
    assert list(due_index(conn).values()) == [at("2026-07-26 00:00")]


def test_a_trashed_table_is_silent_and_speaks_again_when_restored(conn, other_conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, OVERDUE)
    trash_table(conn, table.id, now=NOW)
    assert created(conn) == 0
    heard = hear(other_conn, "duebook_due")

    restored = restore_table(conn, table.id, now=NOW + HOUR)

    assert restored.trashed_at is None
    assert heard() == 1
    assert created(conn) == 1


def test_a_restored_table_is_walked_anew(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=DATE))
    write(conn, table, AHEAD)
    created(conn)
    trash_table(conn, table.id, now=NOW)

    restore_table(conn, table.id, now=NOW)

    state = state_of(conn)
    assert (state.cursor, state.caught_up) == (None, False)


def test_restoring_a_live_table_changes_nothing(conn):
    table = insert_table(conn)

    assert restore_table(conn, table.id, now=NOW) == table


def test_what_is_not_there_is_neither_trashed_nor_restored(conn):
    table = insert_table(conn)
    trash_table(conn, table.id, now=NOW)

    with pytest.raises(NotFound):
        trash_table(conn, table.id, now=NOW)
    with pytest.raises(NotFound):
        restore_table(conn, uuid4(), now=NOW)
