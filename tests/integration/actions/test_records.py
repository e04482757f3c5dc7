from dataclasses import replace
from uuid import uuid4

import pytest

from shared.actions.failures import ActionFailed
from shared.domain.columns import Column
from shared.effects.record_writes import MAX_DEPTH, create_records, delete_record
from shared.queries.custom_tables import (
    get_table,
    insert_table,
    trash_table,
    update_definition,
)
from shared.queries.records import find_record
from shared.usecases.manage_tables import alter_table
from tests.integration.actions.contexts import COLUMNS, NOW, a_workspace, execute

ON_CREATED = {
    "id": "trg_aaaaaaaaaaaa",
    "name": "next",
    "enabled": True,
    "on": "record_created",
    "when": [],
    "actions": [{"type": "delete_record"}],
}


@pytest.fixture
def record(workspace):
    """A record whose cells differ from the snapshot of the run: it was changed since."""
    cells = {"c1": "now", "c2": 2, "c3": "2027-01-01"}
    [record] = create_records(workspace.conn, workspace.table, [cells], now=NOW)
    return record


def a_target(workspace, *, columns=None, tenant=None):
    return insert_table(
        workspace.conn,
        tenant_id=(tenant or workspace.tenant).id,
        channel_id=None,
        name="target",
        columns=columns
        or (Column(id="c1", name="title", type="text"), Column(id="c2", name="n", type="number")),
        columns_made=2,
        now=NOW,
    )


def with_columns(workspace, *columns):
    """The workspace after its table's columns were edited to these."""
    edited = replace(workspace.table, columns=columns)
    return replace(workspace, table=update_definition(workspace.conn, edited, now=NOW))


def with_triggers(workspace, table, *triggers):
    return update_definition(workspace.conn, replace(table, triggers=list(triggers)), now=NOW)


def detail_of(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    assert not caught.value.transient
    return caught.value.detail


def runs_in(conn):
    return conn.execute(
        "SELECT table_id, kind, record_id, depth FROM trigger_run ORDER BY id"
    ).fetchall()


# create_record


def test_a_record_is_created_in_another_table(workspace):
    target = a_target(workspace)
    data = {"title": "for $row.案件名稱", "n": "$row.amount"}

    result = execute(
        {"type": "create_record", "table_id": str(target.id), "data": data}, workspace.context()
    )

    made = find_record(workspace.conn, target, result["record_id"])
    assert made.data == {"c1": "for 合約 A&B", "c2": 1.5}
    assert result == {"record_id": made.id}


def test_a_second_execution_finds_the_first_record(workspace):
    target = a_target(workspace)
    config = {"type": "create_record", "table_id": str(target.id), "data": {"n": 1}}

    first = execute(config, workspace.context())
    again = execute(config, workspace.context(starts=4))
    other = execute(config, workspace.context(key="other"))

    assert first == again != other


def test_a_run_without_a_row_creates_with_empty_texts(workspace):
    target = a_target(workspace)
    data = {"title": "$row.案件名稱", "n": 7}

    result = execute(
        {"type": "create_record", "table_id": str(target.id), "data": data},
        workspace.recordless(),
    )

    assert find_record(workspace.conn, target, result["record_id"]).data == {"c1": "", "c2": 7}


def test_a_rendered_value_that_is_no_cell_fails_for_good(workspace):
    target = a_target(workspace)
    config = {"type": "create_record", "table_id": str(target.id), "data": {"n": "$row.案件名稱"}}

    assert detail_of(config, workspace.context()) == "column 'n' takes a number"


def test_a_column_of_another_table_that_is_gone_fails_for_good(workspace):
    target = a_target(workspace, columns=(Column(id="c1", name="heading", type="text"),))
    config = {"type": "create_record", "table_id": str(target.id), "data": {"title": "x"}}

    assert detail_of(config, workspace.context()) == "the table has no column 'title'"


def renamed(workspace, table, **names):
    """Rename columns, by their ids; return the table."""
    columns = get_table(workspace.conn, table.id).columns
    raw = [{**one.to_json(), "name": names.get(one.id, one.name)} for one in columns]
    return alter_table(workspace.conn, table.id, raw_columns=raw, now=NOW)


def cells_made(workspace, table, **data):
    config = {"type": "create_record", "table_id": str(table.id), "data": data}
    made = execute(config, workspace.context(key=str(data)))["record_id"]
    return find_record(workspace.conn, table, made).data


def test_work_frozen_under_a_former_name_of_another_tables_column_finds_it(workspace):
    target = a_target(workspace)
    renamed(workspace, target, c1="heading")
    renamed(workspace, target, c1="subject", c2="count")

    assert cells_made(workspace, target, title="a", n=1) == {"c1": "a", "c2": 1}
    assert cells_made(workspace, target, heading="b") == {"c1": "b"}
    assert cells_made(workspace, target, subject="c") == {"c1": "c"}
    config = {"type": "create_record", "table_id": str(target.id)}
    for data in ({"title": "a", "subject": "b"}, {"other": 1}):
        detail = detail_of({**config, "data": data}, workspace.context(key=str(data)))
        assert detail == f"the table has no column '{next(iter(data))}'"


def test_a_former_name_is_that_of_the_column_that_has_it_now_and_then_nobodys(workspace):
    target = a_target(workspace)
    renamed(workspace, target, c1="heading")
    renamed(workspace, target, c2="title")
    assert cells_made(workspace, target, title=5) == {"c2": 5}

    alter_table(
        workspace.conn,
        target.id,
        raw_columns=[{"id": "c1", "name": "heading", "type": "text"}],
        now=NOW,
    )

    config = {"type": "create_record", "table_id": str(target.id), "data": {"title": "x"}}
    assert detail_of(config, workspace.context()) == "the table has no column 'title'"


def test_a_table_that_is_gone_trashed_or_foreign_fails_for_good(workspace, caller):
    trashed = a_target(workspace)
    trash_table(workspace.conn, trashed.id, now=NOW)
    other = a_workspace(workspace.conn, caller, name="other")

    for table_id in (uuid4(), trashed.id, other.table.id):
        config = {"type": "create_record", "table_id": str(table_id), "data": {}}
        assert detail_of(config, workspace.context()) == "the table no longer exists"


def test_a_created_record_fires_triggers_one_level_deeper(workspace):
    target = with_triggers(workspace, a_target(workspace), ON_CREATED)
    config = {"type": "create_record", "table_id": str(target.id), "data": {}}

    result = execute(config, workspace.context(depth=3))

    assert runs_in(workspace.conn) == [(target.id, "record_created", result["record_id"], 4)]


def test_a_chain_of_triggers_is_cut(workspace):
    target = with_triggers(workspace, a_target(workspace), ON_CREATED)
    config = {"type": "create_record", "table_id": str(target.id), "data": {}}

    detail = detail_of(config, workspace.context(depth=MAX_DEPTH))

    assert detail == "a chain of triggers is cut at depth 8: this write would set off one more"
    assert runs_in(workspace.conn) == []


def test_the_own_tables_columns_are_known_by_their_frozen_names(workspace):
    renamed = (replace(COLUMNS[0], name="title"), replace(COLUMNS[1], name="案件名稱"), COLUMNS[2])
    workspace = with_columns(workspace, *renamed)
    config = {
        "type": "create_record",
        "table_id": str(workspace.table.id),
        "data": {"案件名稱": "x"},
    }

    result = execute(config, workspace.context())

    made = find_record(workspace.conn, workspace.table, result["record_id"])
    assert made.data == {"c1": "x"}


# update_record


def test_the_row_is_updated_as_it_is_now_from_the_row_as_it_was(workspace, record):
    data = {"案件名稱": "was $row.案件名稱"}

    result = execute(
        {"type": "update_record", "data": data}, workspace.context(record_id=record.id)
    )

    written = find_record(workspace.conn, workspace.table, record.id)
    assert written.data == {"c1": "was 合約 A&B", "c2": 2, "c3": "2027-01-01"}
    assert result == {"record_id": record.id, "version": 2}


def test_a_record_named_by_id_is_updated(workspace, record):
    config = {"type": "update_record", "target": record.id, "data": {"amount": 9}}

    execute(config, workspace.recordless())

    assert find_record(workspace.conn, workspace.table, record.id).data["c2"] == 9


def test_an_update_follows_a_renamed_column(workspace, record):
    config = {"type": "update_record", "data": {"amount": 9}}
    workspace = with_columns(workspace, COLUMNS[0], replace(COLUMNS[1], name="sum"), COLUMNS[2])

    execute(config, workspace.context(record_id=record.id))

    assert find_record(workspace.conn, workspace.table, record.id).data["c2"] == 9


def test_an_update_of_a_dropped_column_fails_for_good(workspace, record):
    workspace = with_columns(workspace, COLUMNS[0], COLUMNS[2])

    detail = detail_of(
        {"type": "update_record", "data": {"amount": 9}}, workspace.context(record_id=record.id)
    )

    assert detail == "the table has no column 'amount'"


@pytest.mark.parametrize("action_type", ["update_record", "delete_record"])
def test_a_record_that_is_gone_fails_for_good(workspace, record, action_type):
    delete_record(workspace.conn, workspace.table, record.id, now=NOW)
    config = {"type": action_type, "data": {"amount": 9}}

    for record_id in (record.id, 10**9):
        detail = detail_of(config, workspace.context(record_id=record_id))
        assert detail == f"record {record_id} does not exist"


@pytest.mark.parametrize("action_type", ["update_record", "delete_record"])
def test_a_record_of_another_table_does_not_exist(workspace, action_type):
    [foreign] = create_records(workspace.conn, a_target(workspace), [{}], now=NOW)
    config = {"type": action_type, "target": foreign.id, "data": {"amount": 9}}

    assert detail_of(config, workspace.context()) == f"record {foreign.id} does not exist"


@pytest.mark.parametrize("action_type", ["update_record", "delete_record"])
def test_a_table_trashed_meanwhile_fails_for_good(workspace, record, action_type):
    trash_table(workspace.conn, workspace.table.id, now=NOW)
    config = {"type": action_type, "data": {"amount": 9}}

    detail = detail_of(config, workspace.context(record_id=record.id))

    assert detail == "the table no longer exists"


# delete_record


def test_the_row_is_deleted_softly(workspace, record):
    result = execute({"type": "delete_record"}, workspace.context(record_id=record.id))

    deleted = workspace.conn.execute(
        "SELECT deleted_at FROM record WHERE id = %s", [record.id]
    ).fetchone()
    assert result == {"record_id": record.id}
    assert find_record(workspace.conn, workspace.table, record.id) is None
    assert deleted == (NOW,)


def test_effects_vanish_with_the_transaction_of_the_receipt(workspace, record):
    with workspace.conn.transaction(force_rollback=True):
        execute({"type": "delete_record"}, workspace.context(record_id=record.id))
        execute(
            {"type": "notify", "chatroom_id": str(uuid4()), "message": "x"}, workspace.context()
        )

    assert find_record(workspace.conn, workspace.table, record.id) is not None
    assert workspace.conn.execute("SELECT count(*) FROM chat_message").fetchone() == (0,)
