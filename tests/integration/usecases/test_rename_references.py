"""Whatever names a renamed column follows it; what an alteration breaks is told."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from shared.db.connection import connect
from shared.domain.columns import Column
from shared.errors import InvalidInput
from shared.lifecycle import wait_until
from shared.queries.custom_tables import find_table, get_table
from shared.queries.trigger_rules import get_rule
from shared.queries.workflows import get_version, get_workflow
from shared.usecases.manage_rules import RuleDraft, make_rule
from shared.usecases.manage_tables import alter_table, change_table, trash_table
from shared.usecases.manage_workflows import make_workflow
from tests.builders import AN_ACTION
from tests.builders_db import COLUMNS, NOW, insert_table
from tests.builders_rules import NOTIFY, wait_node
from tests.integration.usecases.world import (
    DATE,
    OTHER_ID,
    TRIGGER_ID,
    a_known,
    save,
    waits_for_a_lock,
)


@pytest.fixture
def table(conn):
    return insert_table(conn)


def _creating(table, **data):
    return {"type": "create_record", "table_id": str(table.id), "data": data}


def _renamed(table, **names):
    return [
        {**column.to_json(), "name": names.get(column.name, column.name)}
        for column in table.columns
    ]


def _typed(table, **types):
    return [
        {**column.to_json(), "type": types.get(column.name, column.type)}
        for column in table.columns
    ]


def _rename(conn, table, **names):
    return alter_table(conn, table.id, raw_columns=_renamed(table, **names), now=NOW)


def _rule(conn, table, *actions):
    draft = RuleDraft(name="r", event="e", conditions=[], actions=list(actions), enabled=True)
    return make_rule(conn, tenant_id=table.tenant_id, draft=draft, now=NOW)


def _workflow(conn, table, *nodes):
    return make_workflow(conn, tenant_id=table.tenant_id, name="w", nodes=list(nodes), now=NOW)


def _act(action):
    return {"type": "action", "action": action}


def test_a_rule_follows_and_gets_a_revision(conn, table):
    late = {**_creating(table, title="late"), "delay": {"seconds": 60}}
    rule = _rule(conn, table, NOTIFY, _creating(table, title="$event.x"), late)

    _rename(conn, table, title="subject")

    after = get_rule(conn, table.tenant_id, rule.id)
    assert [action.get("data") for action in after.actions] == [
        None,
        {"subject": "$event.x"},
        {"subject": "late"},
    ]
    assert after.revision == rule.revision + 1


def test_a_workflow_follows_in_its_next_version_and_keeps_the_one_before(conn, table):
    inside = wait_node(clicked=[_act(_creating(table, title="c"))], not_clicked=[_act(NOTIFY)])
    branch = {"type": "branch", "when": [], "then": [inside], "else": []}
    workflow = _workflow(conn, table, _act(_creating(table, title="a")), branch)

    _rename(conn, table, title="subject")

    after = get_workflow(conn, table.tenant_id, workflow.id)
    assert after.version == 2
    assert after.nodes[0]["action"]["data"] == {"subject": "a"}
    clicked = after.nodes[1]["then"][0]["clicked"]
    assert clicked[0]["action"]["data"] == {"subject": "c"}
    before = get_version(conn, table.tenant_id, workflow.id, 1)
    assert before.nodes == workflow.nodes


def test_what_names_other_columns_or_tables_keeps_its_revision(conn, table):
    other = insert_table(conn, tenant_id=table.tenant_id)
    rule = _rule(conn, table, _creating(other, title="x"), _creating(table, due="2026-01-01"))
    workflow = _workflow(conn, table, _act(_creating(table, due="2026-01-01")))

    _rename(conn, table, title="subject")

    assert get_rule(conn, table.tenant_id, rule.id) == rule
    assert get_workflow(conn, table.tenant_id, workflow.id) == workflow


def test_what_is_not_renamed_breaks_nothing(conn, table):
    save(conn, table, a_known(schedule=DATE))
    columns = [*_renamed(table, due="term"), {"name": "more", "type": "text"}]

    altered = change_table(conn, table.id, raw_columns=columns, now=NOW)

    assert altered.breaks == []


def _told(altered):
    return [
        (one.kind, one.id, sorted((fault.code, fault.pointer) for fault in one.faults))
        for one in altered.breaks
    ]


def test_a_dropped_column_breaks_what_names_it(conn, table):
    other = insert_table(conn, tenant_id=table.tenant_id)
    trashed = insert_table(conn, tenant_id=table.tenant_id)
    when = [{"column": "due", "op": "not_empty"}]
    hook = {**AN_ACTION, "payload": {"at": "$row.due"}}
    save(conn, table, a_known(schedule=DATE, when=when), a_known(id=OTHER_ID))
    save(
        conn,
        other,
        a_known(schedule=DATE, actions=[hook]),
        a_known(id=OTHER_ID, on="record_created", actions=[_creating(table, due="2026-01-01")]),
    )
    save(conn, trashed, a_known(actions=[_creating(table, due="2026-01-01")]))
    trash_table(conn, trashed.id, now=NOW)
    rule = _rule(conn, table, _creating(table, due="2026-01-01"))
    workflow = _workflow(conn, table, _act(_creating(table, due="2026-01-01", title="x")))
    dropping = [raw for raw in _renamed(table, title="subject") if raw["name"] != "due"]

    dry = change_table(conn, table.id, raw_columns=dropping, now=NOW, dry_run=True)
    assert get_table(conn, table.id).revision == 2
    assert get_rule(conn, table.tenant_id, rule.id).revision == 1
    done = change_table(conn, table.id, raw_columns=dropping, now=NOW)

    assert _told(done) == [
        (
            "trigger",
            TRIGGER_ID,
            [
                ("schedule_column_missing", "/schedule/column"),
                ("when_column_missing", "/when/0/column"),
            ],
        ),
        ("trigger", OTHER_ID, [("column_unknown", "/actions/0/data/due")]),
        ("trigger_rule", str(rule.id), [("column_unknown", "/actions/0/data/due")]),
        ("workflow", str(workflow.id), [("column_unknown", "/nodes/0/action/data/due")]),
    ]
    assert [one.table_id for one in done.breaks] == [table.id, other.id, None, None]
    assert _told(dry) == _told(done)
    assert dry.table.columns == done.table.columns
    # What the other columns are called now was followed all the same.
    [node] = get_workflow(conn, table.tenant_id, workflow.id).nodes
    assert node["action"]["data"] == {"due": "2026-01-01", "subject": "x"}
    assert len(find_table(conn, table.id).triggers) == 2


def test_another_type_breaks_what_it_does_not_fit(conn, table):
    number = {"column": "amount", "op": "gt", "value": 5}
    save(
        conn,
        table,
        a_known(schedule=DATE, when=[number]),
        a_known(
            id=OTHER_ID,
            on="record_created",
            actions=[{"type": "update_record", "data": {"amount": 7, "title": "x"}}],
        ),
    )

    altered = change_table(
        conn, table.id, raw_columns=_typed(table, due="text", amount="checkbox"), now=NOW
    )

    assert _told(altered) == [
        (
            "trigger",
            TRIGGER_ID,
            [
                ("schedule_column_wrong_type", "/schedule/column"),
                ("when_predicate_invalid", "/when/0/op"),
            ],
        ),
        ("trigger", OTHER_ID, [("cell_invalid", "/actions/0/data/amount")]),
    ]


def test_an_option_that_goes_breaks_the_constants_that_were_it(conn):
    colour = Column(id="c1", name="colour", type="select", options=("red", "blue"))
    table = insert_table(conn, columns=(colour,))
    update = {"type": "update_record", "data": {"colour": "blue"}}
    save(conn, table, a_known(on="record_updated", actions=[update]))

    altered = change_table(
        conn, table.id, raw_columns=[{**colour.to_json(), "options": ["red"]}], now=NOW
    )

    assert _told(altered) == [("trigger", TRIGGER_ID, [("cell_invalid", "/actions/0/data/colour")])]


def test_what_was_broken_before_is_not_told_again(conn, table):
    save(conn, table, a_known(schedule=DATE))
    change_table(conn, table.id, raw_columns=_typed(table, due="text"), now=NOW)

    altered = change_table(conn, table.id, raw_columns=_typed(table, due="number"), now=NOW)

    assert altered.breaks == []


def _elsewhere(database_url, act):
    with connect(database_url, application_name="elsewhere") as conn:
        return act(conn)


def test_a_save_of_another_table_that_began_before_a_rename_is_followed(
    conn, other_conn, database_url, table
):
    other = insert_table(conn, tenant_id=table.tenant_id)

    with ThreadPoolExecutor(1) as pool:
        with other_conn.transaction():
            save(other_conn, other, a_known(actions=[_creating(table, title="x")]))
            renaming = pool.submit(
                _elsewhere, database_url, lambda each: _rename(each, table, title="subject")
            )
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        renaming.result()

    [trigger] = get_table(conn, other.id).triggers
    assert trigger["actions"][0]["data"] == {"subject": "x"}


@pytest.mark.parametrize("kind", ["triggers", "rule", "workflow"])
def test_a_save_that_began_during_a_rename_is_checked_against_the_new_names(
    conn, other_conn, database_url, table, kind
):
    other = insert_table(conn, tenant_id=table.tenant_id)
    action = _creating(table, title="x")
    saves = {
        "triggers": lambda each: save(each, other, a_known(actions=[action])),
        "rule": lambda each: _rule(each, table, action),
        "workflow": lambda each: _workflow(each, table, _act(action)),
    }

    with ThreadPoolExecutor(1) as pool:
        with other_conn.transaction():
            _rename(other_conn, table, title="subject")
            saving = pool.submit(_elsewhere, database_url, saves[kind])
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        with pytest.raises(InvalidInput) as caught:
            saving.result()

    assert [fault.code for fault in caught.value.faults] == ["column_unknown"]


def test_two_tables_that_create_in_each_other_are_renamed_at_once(
    conn, other_conn, database_url, table
):
    other = insert_table(conn, tenant_id=table.tenant_id, columns=COLUMNS)
    save(conn, table, a_known(actions=[_creating(other, title="x")]))
    save(conn, other, a_known(actions=[_creating(table, title="x")]))

    with ThreadPoolExecutor(1) as pool:
        with other_conn.transaction():
            _rename(other_conn, table, title="one")
            renaming = pool.submit(
                _elsewhere, database_url, lambda each: _rename(each, other, title="two")
            )
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        renaming.result()

    stored = [get_table(conn, one.id).triggers[0]["actions"][0]["data"] for one in (table, other)]
    assert stored == [{"two": "x"}, {"one": "x"}]
