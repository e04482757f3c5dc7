"""Bundles against the database: exported, planned, and applied exactly as planned."""

import json
from uuid import UUID

import pytest
from psycopg.errors import LockNotAvailable

from shared.domain.on_existing import OnExisting
from shared.errors import Conflict, InvalidInput
from shared.queries.commands import find_command
from shared.queries.custom_tables import find_table, list_tables
from shared.queries.trigger_rules import list_rules
from shared.queries.workflows import find_workflow, list_workflows
from shared.usecases import apply_bundle as module
from shared.usecases.apply_bundle import apply_bundle
from shared.usecases.bundle_state import Reach
from shared.usecases.export_bundle import export_bundle
from shared.usecases.manage_commands import alter_command
from shared.usecases.manage_rules import RuleDraft, replace_rule
from shared.usecases.manage_tables import alter_table, create_table, trash_table
from shared.usecases.manage_workflows import replace_workflow
from shared.usecases.plan_bundle import plan_bundle
from shared.usecases.set_triggers import set_triggers
from tests.builders_db import NOW, insert_tenant
from tests.builders_rules import NOTIFY, action_node
from tests.integration.usecases.world import HOUR, save, stored_triggers, write

CHANNEL = UUID("c0000000-0000-4000-8000-000000000001")
DUE = {"type": "date_column_reached", "column": "due"}
COLUMNS = [{"name": "title", "type": "text"}, {"name": "due", "type": "datetime"}]

COMMAND = {
    "kind": "command",
    "name": "print",
    "url": "https://example.com/p",
    "input_schema": {"type": "object"},
}
ORDERS = {"kind": "table", "name": "orders", "columns": COLUMNS}
CASES = {"kind": "table", "name": "cases", "columns": COLUMNS}
CREATE = {"type": "create_record", "table": "cases", "data": {"title": "new"}}
REMIND = {
    "kind": "trigger",
    "table": "orders",
    "id": "trg_00000000aaaa",
    "on": "schedule",
    "schedule": DUE,
    "actions": [NOTIFY],
}
OPEN = {
    "kind": "trigger",
    "table": "orders",
    "id": "trg_00000000bbbb",
    "on": "record_created",
    "actions": [
        CREATE,
        {"type": "invoke_command", "command": "print"},
        {"type": "start_workflow", "workflow": "outer"},
    ],
}
START = {"type": "start_workflow", "workflow": "inner"}
OUTER = {"kind": "workflow", "name": "outer", "nodes": [{"type": "action", "action": START}]}
INNER = {"kind": "workflow", "name": "inner", "nodes": [{"type": "action", "action": CREATE}]}
RULE = {"kind": "trigger_rule", "name": "paid", "event": "paid", "actions": [CREATE]}

# What is named comes behind what names it.
EVERYTHING = (OPEN, RULE, OUTER, REMIND, ORDERS, INNER, CASES, COMMAND)


@pytest.fixture
def reach(conn):
    return Reach(tenant_id=insert_tenant(conn), channel_id=None)


def document(*lines):
    return "\n".join(map(json.dumps, lines)).encode()


def planned(conn, reach, *lines):
    return plan_bundle(conn, reach, document(*lines), now=NOW)


def applied(conn, reach, *lines, fingerprint=None, now=NOW):
    """Plan lines, unless a plan is given, and apply them; return the items."""
    fingerprint = fingerprint or planned(conn, reach, *lines).fingerprint
    return apply_bundle(conn, reach, document(*lines), fingerprint=fingerprint, now=now)


def actions_of(items):
    return [(item.line, item.action) for item in items]


def table_named(conn, reach, name):
    [found] = [
        table
        for table in list_tables(conn, tenant_id=reach.tenant_id, limit=100)
        if table.name == name
    ]
    return found


def faults_of(conn, reach, *lines):
    with pytest.raises(InvalidInput) as caught:
        applied(conn, reach, *lines)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


def test_all_is_made_in_the_order_of_what_it_needs(conn, reach):
    applied(conn, reach, *EVERYTHING)

    cases = table_named(conn, reach, "cases")
    opened = stored_triggers(conn, table_named(conn, reach, "orders"))[0]
    assert opened["actions"][0]["table_id"] == str(cases.id)
    inner = find_workflow(conn, reach.tenant_id, "inner")
    assert inner.nodes[0]["action"]["table_id"] == str(cases.id)
    assert actions_of(planned(conn, reach, *EVERYTHING).plan.items) == [
        (number, "noop") for number in range(1, 9)
    ]


def test_an_export_in_another_tenant_is_the_same_bytes(conn, reach):
    applied(conn, reach, *EVERYTHING)
    exported = export_bundle(conn, reach)
    other = Reach(tenant_id=insert_tenant(conn), channel_id=None)

    fingerprint = plan_bundle(conn, other, exported.encode(), now=NOW).fingerprint
    apply_bundle(conn, other, exported.encode(), fingerprint=fingerprint, now=NOW)

    assert export_bundle(conn, other) == exported
    kinds = [json.loads(line)["kind"] for line in exported.splitlines()]
    assert kinds == [
        "command", "table", "table", "trigger", "trigger", "workflow", "workflow", "trigger_rule",
    ]  # fmt: skip
    for tenant in (reach, other):
        assert {
            item.action for item in plan_bundle(conn, tenant, exported.encode(), now=NOW).plan.items
        } == {"noop"}


def test_ids_of_new_triggers_are_told(conn, reach):
    without_id = {key: value for key, value in REMIND.items() if key != "id"}

    items = applied(conn, reach, ORDERS, without_id, {**without_id, "name": "b"})

    stored = stored_triggers(conn, table_named(conn, reach, "orders"))
    assert [item.trigger_id for item in items[1:]] == [trigger["id"] for trigger in stored]


def test_what_is_as_it_should_be_is_not_written(conn, reach):
    applied(conn, reach, *EVERYTHING)
    table = table_named(conn, reach, "orders")
    workflow = find_workflow(conn, reach.tenant_id, "outer")

    applied(conn, reach, *EVERYTHING, now=NOW + HOUR)

    assert find_table(conn, table.id) == table
    assert find_workflow(conn, reach.tenant_id, "outer") == workflow


def test_each_kind_is_updated(conn, reach):
    applied(conn, reach, *EVERYTHING)
    changed = [
        {**COMMAND, "url": "https://example.com/q"},
        {**ORDERS, "approval": "required"},
        {**REMIND, "name": "remind"},
        {**INNER, "nodes": [action_node()]},
        {**RULE, "enabled": False},
    ]

    items = applied(conn, reach, *changed)

    assert actions_of(items) == [
        *((number, "update") for number in range(1, 6)),
        (None, "delete"),
    ]
    assert find_command(conn, reach.tenant_id, "print").url == "https://example.com/q"
    assert table_named(conn, reach, "orders").approval == "required"
    assert [one["name"] for one in stored_triggers(conn, table_named(conn, reach, "orders"))] == [
        "remind"
    ]
    assert find_workflow(conn, reach.tenant_id, "inner").version == 2
    assert not list_rules(conn, reach.tenant_id, limit=9).items[0].enabled


def test_a_kind_is_changed_by_a_delete_and_a_create(conn, reach):
    applied(conn, reach, ORDERS, REMIND)
    anew = {**REMIND, "schedule": {"type": "daily", "at": "09:00"}}

    assert faults_of(conn, reach, ORDERS, anew) == [
        ("/2/schedule/type", "schedule_kind_change_requires_new_trigger_id")
    ]
    del anew["id"]
    assert actions_of(applied(conn, reach, ORDERS, anew)) == [
        (1, "noop"),
        (2, "create"),
        (None, "delete"),
    ]


def test_a_renamed_column_keeps_its_cells_and_whatever_names_it(conn, reach):
    applied(conn, reach, *EVERYTHING)
    cases = table_named(conn, reach, "cases")
    renamed = [{**cases.columns[0].to_json(), "name": "titel"}, cases.columns[1].to_json()]
    create = {**CREATE, "data": {"titel": "new"}}
    lines = [
        {**CASES, "columns": renamed},
        {**OPEN, "actions": [create, *OPEN["actions"][1:]]},
        {**INNER, "nodes": [{"type": "action", "action": create}]},
        {**RULE, "actions": [create]},
    ]

    items = applied(conn, reach, *lines)

    assert actions_of(items) == [(1, "update"), (2, "noop"), (3, "noop"), (4, "noop")]
    assert {item.action for item in planned(conn, reach, *lines).plan.items} == {"noop"}
    rule = list_rules(conn, reach.tenant_id, limit=9).items[0]
    assert rule.actions[0]["data"] == {"titel": "new"}


def test_what_the_save_refuses_is_told_with_its_line_and_nothing_is_stored(conn, reach):
    # Planned as a change, and refused here (spec 1 §3).
    offset = {**REMIND, "schedule": {**DUE, "offset_minutes": False}}
    unknown = {**OPEN, "actions": [{**CREATE, "data": {"colour": 1}}, {"type": "shout"}]}
    rule = {**RULE, "actions": [{**NOTIFY, "message": 7}]}

    assert faults_of(conn, reach, COMMAND, ORDERS, CASES, rule, offset, unknown) == [
        ("/4/actions/0/message", "action_invalid"),
        ("/5/schedule/offset_minutes", "offset_minutes_invalid"),
        ("/6/actions/0/data/colour", "column_unknown"),
        ("/6/actions/1/type", "action_type_unknown"),
    ]
    assert export_bundle(conn, reach) == ""


def test_a_fault_of_the_table_that_is_named_points_at_its_name(conn, reach):
    applied(conn, reach, CASES, ORDERS)
    other = Reach(tenant_id=insert_tenant(conn), channel_id=None)
    foreign = table_named(conn, reach, "cases").id
    by_id = {"type": "create_record", "table_id": str(foreign), "data": {}}

    assert faults_of(conn, other, ORDERS, {**OPEN, "actions": [by_id]}) == [
        ("/2/actions/0/table_id", "action_table_unknown")
    ]


def test_a_dropped_column_that_a_line_still_names_is_refused(conn, reach):
    applied(conn, reach, ORDERS, REMIND)

    assert faults_of(conn, reach, {**ORDERS, "columns": COLUMNS[:1]}, REMIND) == [
        ("/2/schedule/column", "schedule_column_missing")
    ]
    on_create = {**REMIND, "on": "record_created"}
    del on_create["schedule"]
    applied(conn, reach, {**ORDERS, "columns": COLUMNS[:1]}, on_create)


def test_more_triggers_than_a_table_takes_are_refused_on_its_first_line(conn, reach):
    many = [{**REMIND, "id": f"trg_{number:012x}"} for number in range(101)]

    assert faults_of(conn, reach, ORDERS, *many) == [("/1", "triggers_invalid")]


def test_workflows_may_change_who_starts_whom(conn, reach):
    applied(conn, reach, CASES, OUTER, INNER)
    starts = [{"type": "action", "action": {"type": "start_workflow", "workflow": "outer"}}]

    assert faults_of(conn, reach, CASES, {**INNER, "nodes": starts})[0][1] == (
        "workflow_starts_itself"
    )
    applied(conn, reach, {**INNER, "nodes": starts}, {**OUTER, "nodes": [action_node()]})

    assert len(list_workflows(conn, reach.tenant_id, limit=9).items) == 2


def change_triggers(conn, reach):
    save(conn, table_named(conn, reach, "orders"))


def change_columns(conn, reach):
    alter_table(conn, table_named(conn, reach, "orders").id, raw_columns=COLUMNS[:1], now=NOW)


def trash(conn, reach):
    trash_table(conn, table_named(conn, reach, "orders").id, now=NOW)


def replace_named(conn, reach):
    """Put another table of the same name in the place of one that an action names."""
    table = table_named(conn, reach, "cases")
    trash_table(conn, table.id, now=NOW)
    create_table(
        conn,
        tenant_id=reach.tenant_id,
        channel_id=None,
        name="cases",
        raw_columns=COLUMNS,
        now=NOW,
    )


def change_rule(conn, reach):
    [rule] = list_rules(conn, reach.tenant_id, limit=9).items
    draft = RuleDraft(name="paid", event="unpaid", conditions=[], actions=[NOTIFY], enabled=True)
    replace_rule(
        conn,
        tenant_id=reach.tenant_id,
        rule_id=rule.id,
        draft=draft,
        now=NOW,
        expected_revision=None,
    )


def change_workflow(conn, reach):
    workflow = find_workflow(conn, reach.tenant_id, "inner")
    replace_workflow(
        conn,
        tenant_id=reach.tenant_id,
        workflow_id=workflow.id,
        name="inner",
        nodes=[action_node(message="other")],
        now=NOW,
        expected_version=None,
    )


def change_command(conn, reach):
    alter_command(
        conn,
        tenant_id=reach.tenant_id,
        command_id=find_command(conn, reach.tenant_id, "print").id,
        url="https://example.com/else",
        input_schema=None,
        now=NOW,
        expected_revision=None,
    )


@pytest.mark.parametrize(
    "meanwhile",
    [change_triggers, change_columns, trash, change_rule, change_workflow, change_command],
)
def test_a_plan_is_stale_once_anything_that_it_names_has_changed(conn, reach, meanwhile):
    applied(conn, reach, *EVERYTHING)
    lines = [{**one, "approval": "required"} if one is ORDERS else one for one in EVERYTHING]
    fingerprint = planned(conn, reach, *lines).fingerprint

    meanwhile(conn, reach)

    with pytest.raises(Conflict) as caught:
        applied(conn, reach, *lines, fingerprint=fingerprint)
    assert caught.value.code == "plan_stale"


def test_a_plan_is_stale_when_a_name_has_come_to_mean_another_table(conn, reach):
    applied(conn, reach, ORDERS, CASES)
    lines = [{**RULE, "name": "new"}]
    fingerprint = planned(conn, reach, *lines).fingerprint

    replace_named(conn, reach)

    with pytest.raises(Conflict, match="when this was planned"):
        applied(conn, reach, *lines, fingerprint=fingerprint)


def test_another_document_and_another_tenant_are_not_what_was_planned(conn, reach):
    fingerprint = planned(conn, reach, ORDERS).fingerprint
    other = Reach(tenant_id=insert_tenant(conn), channel_id=None)

    for where, lines in ((reach, [ORDERS, CASES]), (other, [ORDERS])):
        with pytest.raises(Conflict, match="when this was planned"):
            applied(conn, where, *lines, fingerprint=fingerprint)


def test_records_and_what_no_line_names_leave_a_plan_as_it_is(conn, reach):
    applied(conn, reach, *EVERYTHING)
    lines = [{**REMIND, "name": "new"}]
    fingerprint = planned(conn, reach, *lines).fingerprint

    write(conn, table_named(conn, reach, "orders"), "2026-07-25 08:00")
    alter_table(conn, table_named(conn, reach, "cases").id, name="files", now=NOW)

    assert actions_of(applied(conn, reach, *lines, fingerprint=fingerprint)) == [(1, "update")]


def test_of_two_applies_of_one_plan_the_second_is_stale(conn, other_conn, reach):
    fingerprint = planned(conn, reach, ORDERS).fingerprint
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        applied(conn, reach, ORDERS, fingerprint=fingerprint)
        with pytest.raises(LockNotAvailable):
            applied(other_conn, reach, ORDERS, fingerprint=fingerprint)

    with pytest.raises(Conflict, match="when this was planned"):
        applied(other_conn, reach, ORDERS, fingerprint=fingerprint)
    assert len(list_tables(conn, tenant_id=reach.tenant_id, limit=9)) == 1


def test_an_apply_and_a_save_of_triggers_wait_for_each_other(conn, other_conn, reach):
    applied(conn, reach, ORDERS, REMIND)
    table = table_named(conn, reach, "orders")
    lines = [ORDERS, {**REMIND, "name": "applied"}]
    fingerprint = planned(conn, reach, *lines).fingerprint
    other_conn.execute("SET lock_timeout = '50ms'")

    with conn.transaction():
        applied(conn, reach, *lines, fingerprint=fingerprint)
        with pytest.raises(LockNotAvailable):
            set_triggers(other_conn, table.id, [], now=NOW)
    back = [ORDERS, {**REMIND, "name": "back"}]
    fingerprint = planned(conn, reach, *back).fingerprint
    with conn.transaction():
        set_triggers(conn, table.id, [], now=NOW)
        with pytest.raises(LockNotAvailable):
            applied(other_conn, reach, *back, fingerprint=fingerprint)

    with pytest.raises(Conflict, match="when this was planned"):
        applied(other_conn, reach, *back, fingerprint=fingerprint)
    assert stored_triggers(conn, table) == []


def test_a_name_that_comes_to_mean_another_table_during_an_apply_means_the_planned_one(
    conn, other_conn, reach, monkeypatch
):
    applied(conn, reach, CASES, {**CASES, "name": "spare"})
    cases, spare = (table_named(conn, reach, name) for name in ("cases", "spare"))

    def make_table(*arguments, **options):
        alter_table(other_conn, cases.id, name="files", now=NOW)
        alter_table(other_conn, spare.id, name="cases", now=NOW)
        return create_table(*arguments, **options)

    monkeypatch.setattr(module, "create_table", make_table)
    applied(conn, reach, ORDERS, {**REMIND, "actions": [CREATE]})

    [trigger] = stored_triggers(conn, table_named(conn, reach, "orders"))
    assert trigger["actions"][0]["table_id"] == str(cases.id)


def test_an_apply_that_takes_too_long_stores_nothing(conn, reach, monkeypatch):
    monkeypatch.setattr(module, "SECONDS", -1.0)

    with pytest.raises(Conflict) as caught:
        applied(conn, reach, ORDERS)

    assert caught.value.code == "bundle_too_slow"
    assert export_bundle(conn, reach) == ""


def test_tables_that_share_a_name_are_told_and_not_exported(conn, reach):
    applied(conn, reach, ORDERS)
    create_table(
        conn,
        tenant_id=reach.tenant_id,
        channel_id=CHANNEL,
        name="orders",
        raw_columns=COLUMNS,
        now=NOW,
    )

    assert faults_of(conn, reach, ORDERS) == [("/1/name", "table_ambiguous")]
    with pytest.raises(Conflict, match="several tables are named 'orders'"):
        export_bundle(conn, reach)
    of_channel = Reach(tenant_id=reach.tenant_id, channel_id=CHANNEL)
    assert actions_of(planned(conn, of_channel, ORDERS).plan.items) == [(1, "noop")]


def test_the_bundle_of_a_channel_is_about_its_tables_alone(conn, reach):
    applied(conn, reach, CASES)
    of_channel = Reach(tenant_id=reach.tenant_id, channel_id=CHANNEL)

    assert faults_of(conn, of_channel, ORDERS, OPEN) == [("/2/actions/0/table", "table_unknown")]
    applied(conn, of_channel, ORDERS, {**CASES, "channel_id": str(CHANNEL)}, REMIND)

    exported = export_bundle(conn, of_channel)
    assert [json.loads(line)["name"] for line in exported.splitlines()] == ["cases", "orders", ""]
    assert "channel_id" not in exported
    assert table_named(conn, of_channel, "orders").channel_id == CHANNEL
    assert faults_of(conn, of_channel, {**ORDERS, "channel_id": None}) == [
        ("/1/channel_id", "channel_forbidden")
    ]
    assert faults_of(conn, of_channel, RULE) == [("/1/kind", "bundle_kind_forbidden")]


def test_a_bundle_that_no_plan_would_take_is_not_exported(conn, reach, monkeypatch):
    applied(conn, reach, ORDERS)
    monkeypatch.setattr("shared.usecases.export_bundle.MAX_BYTES", 10)

    with pytest.raises(Conflict) as caught:
        export_bundle(conn, reach)

    assert caught.value.code == "bundle_too_large"


def test_a_plan_tells_what_the_table_as_it_stands_would_refuse(conn, reach):
    applied(conn, reach, {**ORDERS, "channel_id": str(CHANNEL)}, CASES, REMIND)
    edited = {**REMIND, "schedule": {**DUE, "offset_minutes": 5}}
    of_cases = {**REMIND, "table": "cases", "id": "trg_00000000cccc"}
    write(conn, table_named(conn, reach, "orders"), "2026-07-25 08:00")
    stored = {key: value for key, value in REMIND.items() if key not in ("kind", "table")}
    save(conn, table_named(conn, reach, "orders"))
    consume = OnExisting(mode="consume")
    save(conn, table_named(conn, reach, "orders"), stored, on_existing=consume)

    [problem] = planned(conn, reach, edited, of_cases).outlooks[1].problems
    assert (problem.code, problem.pointer) == ("values_being_consumed", "")

    cases = table_named(conn, reach, "cases")
    conn.execute(
        "UPDATE custom_table SET scp_ruled = true, channel_id = %s WHERE id = %s",
        [CHANNEL, cases.id],
    )
    told = planned(conn, reach, edited, of_cases).outlooks[2]
    assert [problem.code for problem in told.problems] == ["triggers_beside_scp_rules"]
    assert told.consequence is None


def test_a_plan_tells_what_follows_and_what_will_be_refused(conn, reach):
    applied(conn, reach, ORDERS)
    write(conn, table_named(conn, reach, "orders"), "2026-07-25 08:00", "2026-07-24 08:00")
    write(conn, table_named(conn, reach, "orders"), "2026-07-26 08:00", "2026-08-25 08:00")
    offset = {**REMIND, "id": "trg_00000000cccc", "schedule": {**DUE, "offset_minutes": True}}

    told = planned(conn, reach, REMIND, offset).outlooks

    consequence = told[1].consequence
    assert (consequence.fires_next_tick, consequence.fires_within_24_hours) == (2, 1)
    assert consequence.oldest_due_at.isoformat() == "2026-07-24T08:00:00+00:00"
    assert told[2].consequence is None
    assert [fault.code for fault in told[2].problems] == ["offset_minutes_invalid"]
    assert stored_triggers(conn, table_named(conn, reach, "orders")) in (None, [])
