"""What actions do on tables that ask for approval: they propose, and write nothing."""

from dataclasses import replace

import pytest

from shared.effects import staged_changes as effect
from shared.effects.record_writes import create_records, delete_record, update_record
from shared.queries.change_lists import ChangeFilter, get_change, list_changes
from shared.queries.custom_tables import update_definition
from shared.queries.records import find_record
from shared.queries.staged_changes import reject
from tests.integration.actions.contexts import NOW, execute
from tests.integration.actions.test_records import a_target, detail_of, runs_in, with_triggers


@pytest.fixture
def asking(workspace):
    """The workspace when its table asks for approval."""
    table = update_definition(
        workspace.conn, replace(workspace.table, approval="required"), now=NOW
    )
    return replace(workspace, table=table)


@pytest.fixture
def record(asking):
    cells = {"c1": "now", "c2": 2}
    [record] = create_records(asking.conn, asking.table, [cells], now=NOW)
    return record


def a_create(table, **data):
    return {"type": "create_record", "table_id": str(table.id), "data": data}


def staged(asking, result, table=None):
    """The change that a receipt names."""
    assert result.keys() == {"staged", "staged_change_id"}
    assert result["staged"] is True
    return get_change(asking.conn, table or asking.table, result["staged_change_id"])


def records_of(asking, table):
    return asking.conn.execute("SELECT id FROM record WHERE table_id = %s", [table.id]).fetchall()


def test_a_record_to_be_made_is_proposed(asking):
    change = staged(asking, execute(a_create(asking.table, amount="$row.amount"), asking.context()))

    assert (change.operation, change.status) == ("create", "pending")
    assert change.proposed == {"c2": 1.5}
    assert (change.base, change.base_version, change.record_id) == (None, None, None)
    assert (change.run_id, change.scheduled_action_id) == (41, None)
    assert records_of(asking, asking.table) == []


def test_cells_to_be_written_are_proposed_with_what_they_replace(asking, record):
    config = {"type": "update_record", "data": {"amount": 9, "到期時間": "2030-01-01"}}

    change = staged(asking, execute(config, asking.context(record_id=record.id)))

    assert (change.operation, change.record_id) == ("update", record.id)
    assert change.proposed == {"c2": 9, "c3": "2030-01-01"}
    assert (change.base, change.base_version) == ({"c2": 2, "c3": None}, 1)
    assert find_record(asking.conn, asking.table, record.id) == record


def test_a_deletion_is_proposed_with_the_whole_record(asking, record):
    change = staged(asking, execute({"type": "delete_record"}, asking.context(record_id=record.id)))

    assert (change.operation, change.record_id, change.proposed) == ("delete", record.id, None)
    assert (change.base, change.base_version) == (record.data, 1)
    assert find_record(asking.conn, asking.table, record.id) == record


@pytest.mark.parametrize(
    "config",
    [{"type": "update_record", "data": {"amount": 9}}, {"type": "delete_record"}, None],
    ids=["update", "delete", "create"],
)
def test_a_repetition_finds_what_was_proposed_and_another_action_proposes_anew(
    asking, record, config
):
    config = config or a_create(asking.table, amount=1)
    first = execute(config, asking.context(record_id=record.id))
    update_record(asking.conn, asking.table, record.id, {"c1": "meanwhile"}, now=NOW)

    again = execute(config, asking.context(record_id=record.id, starts=4))
    delete_record(asking.conn, asking.table, record.id, now=NOW)

    assert execute(config, asking.context(record_id=record.id)) == first == again
    other = execute(a_create(asking.table, amount=1), asking.context(key="other"))
    assert other != first
    assert len(list_changes(asking.conn, asking.table, ChangeFilter(), limit=9).items) == 2


def test_it_is_the_written_table_that_asks(asking):
    target = a_target(asking)

    result = execute(a_create(target, n=1), asking.context())

    assert result.keys() == {"record_id"}
    target = update_definition(asking.conn, replace(target, approval="required"), now=NOW)
    change = staged(asking, execute(a_create(target, n=1), asking.context(key="k2")), target)
    assert change.table_id == target.id
    assert len(records_of(asking, target)) == 1


def test_nothing_fires_upon_a_proposal_and_its_depth_is_kept(asking, record):
    trigger = {
        "id": "trg_aaaaaaaaaaaa",
        "name": "next",
        "enabled": True,
        "on": "record_created",
        "when": [],
        "actions": [{"type": "delete_record"}],
    }
    with_triggers(asking, asking.table, trigger)

    change = staged(asking, execute(a_create(asking.table, amount=1), asking.context(depth=4)))

    assert change.depth == 5
    assert runs_in(asking.conn) == []


def test_what_cannot_be_written_is_not_proposed(asking, record):
    gone = asking.context(record_id=record.id + 1)
    long = {"type": "update_record", "data": {"amount": "$row.案件名稱"}}

    assert detail_of({"type": "delete_record"}, gone) == f"record {record.id + 1} does not exist"
    update = {"type": "update_record", "data": {"amount": 1}}
    assert detail_of(update, gone) == f"record {record.id + 1} does not exist"
    assert detail_of(long, asking.context(record_id=record.id)) == "column 'amount' takes a number"
    assert detail_of(a_create(asking.table, nothing=1), asking.context()) == (
        "the table has no column 'nothing'"
    )
    assert list_changes(asking.conn, asking.table, ChangeFilter(), limit=9).items == []


def test_a_table_with_too_many_to_review_takes_no_more_until_somebody_reviews(asking, monkeypatch):
    monkeypatch.setattr(effect, "MAX_PENDING", 2)
    first = execute(a_create(asking.table, amount=1), asking.context(key="k1"))
    execute(a_create(asking.table, amount=1), asking.context(key="k2"))
    elsewhere = a_target(asking)
    elsewhere = update_definition(asking.conn, replace(elsewhere, approval="required"), now=NOW)

    assert detail_of(a_create(asking.table, amount=1), asking.context(key="k3")) == (
        "2 staged changes of the table wait for a review, which is the limit"
    )
    assert execute(a_create(asking.table, amount=1), asking.context(key="k1")) == first
    assert staged(asking, execute(a_create(elsewhere, n=1), asking.context(key="k4")), elsewhere)

    change_id = first["staged_change_id"]
    assert reject(asking.conn, asking.table, change_id, reviewed_by=None, reason=None, now=NOW)
    assert staged(asking, execute(a_create(asking.table, amount=1), asking.context(key="k3")))


def test_a_scheduled_action_is_told_as_what_staged_it(asking):
    context = replace(asking.context(), work_kind="scheduled_action", work_id=8)

    change = staged(asking, execute(a_create(asking.table, amount=1), context))

    assert (change.run_id, change.scheduled_action_id) == (None, 8)
