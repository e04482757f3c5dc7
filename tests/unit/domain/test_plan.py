"""Plans: what becomes of each line, and what goes."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from shared.domain.bundles import read_document
from shared.domain.plan import make_plan
from shared.domain.planned import Stored, count_actions
from shared.errors import InvalidInput
from tests.builders import AN_ACTION, COLUMNS, a_column, a_stored_trigger, a_table

OTHER_ID = UUID(int=0xD)
FIRST, SECOND, THIRD = (f"trg_00000000000{digit}" for digit in "123")
WRITTEN = [column.to_json() for column in COLUMNS]
TABLE = {"kind": "table", "name": "orders", "columns": WRITTEN}
DUE = {"type": "date_column_reached", "column": "due"}


def a_line(**parts):
    """Return the line of a trigger as a person would write it."""
    return {"kind": "trigger", "table": "orders", "on": "record_created"} | {
        "actions": [AN_ACTION],
        **parts,
    }


def stored_trigger(id, **parts):
    return a_stored_trigger(**{"id": id, "on": "record_created"} | parts)


def standing(*triggers, kinds=(), **parts):
    table = a_table(triggers=list(triggers), **parts)
    return Stored(
        tables={"orders": table}, names={table.id: "orders"}, kinds={table.id: dict(kinds)}
    )


def plan_of(stored, *lines):
    return make_plan(read_document("\n".join(map(json.dumps, lines)).encode()), stored)


def told(plan):
    """Return (line, action, trigger id) of each item."""
    return [(item.line, item.action, item.trigger_id) for item in plan.items]


def changes(plan):
    return [
        (change.op, change.pointer, change.before, change.after)
        for item in plan.items
        for change in item.changes
    ]


def faults_of(stored, *lines):
    with pytest.raises(InvalidInput) as caught:
        plan_of(stored, *lines)
    return [(fault.pointer, fault.code) for fault in caught.value.faults]


def test_everything_is_new_where_nothing_stands():
    rule = {"kind": "trigger_rule", "name": "r", "event": "e", "actions": [AN_ACTION]}
    plan = plan_of(Stored(), a_line(), TABLE, rule, a_line(id=FIRST))

    assert told(plan) == [
        (1, "create", None),
        (2, "create", None),
        (3, "create", None),
        (4, "create", FIRST),
    ]


def test_triggers_are_known_by_their_ids():
    plan = plan_of(
        standing(stored_trigger(FIRST), stored_trigger(SECOND), stored_trigger(THIRD)),
        TABLE,
        a_line(id=FIRST),
        a_line(id=SECOND, name="new"),
        a_line(id="trg_00000000000f"),
    )

    assert told(plan) == [
        (1, "noop", None),
        (2, "noop", FIRST),
        (3, "update", SECOND),
        (4, "create", "trg_00000000000f"),
        (None, "delete", THIRD),
    ]
    assert changes(plan)[0] == ("replace", "/name", "", "new")
    assert plan.tables[0].sets_triggers


def test_without_an_id_what_is_the_same_is_adopted_each_once():
    plan = plan_of(
        standing(stored_trigger(FIRST), stored_trigger(SECOND, name="b"), stored_trigger(THIRD)),
        TABLE,
        a_line(),
        a_line(name="", enabled=True, when=[]),
        a_line(),
    )

    assert told(plan)[1:] == [
        (2, "adopt", FIRST),
        (3, "adopt", THIRD),
        (4, "create", None),
        (None, "delete", SECOND),
    ]


def test_what_a_line_names_is_not_adopted_by_another():
    plan = plan_of(standing(stored_trigger(FIRST)), TABLE, a_line(), a_line(id=FIRST))

    assert told(plan)[1:] == [(2, "create", None), (3, "noop", FIRST)]


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ({**DUE, "offset_minutes": 0}, DUE),
        (
            {"type": "daily", "at": "09:00", "timezone": "UTC"},
            {"type": "daily", "at": "09:00"},
        ),
        (
            {"type": "cron", "expression": "0  9 * *  *", "timezone": "UTC"},
            {"type": "cron", "expression": "0 9 * * *"},
        ),
    ],
)
def test_written_defaults_are_no_change_and_are_adopted(written, stored):
    stands = standing(stored_trigger(FIRST, on="schedule", schedule=stored))
    line = a_line(on="schedule", schedule=written)

    assert told(plan_of(stands, {**line, "id": FIRST})) == [(1, "noop", FIRST)]
    assert told(plan_of(stands, line)) == [(1, "adopt", FIRST)]


@pytest.mark.parametrize("offset", [False, 0.0])
def test_an_offset_that_only_equals_zero_is_a_change_and_not_adopted(offset):
    stands = standing(stored_trigger(FIRST, on="schedule", schedule=DUE))
    line = a_line(on="schedule", schedule={**DUE, "offset_minutes": offset})

    plan = plan_of(stands, {**line, "id": FIRST})

    assert told(plan) == [(1, "update", FIRST)]
    [(op, pointer, _, after)] = changes(plan)
    assert (op, pointer) == ("add", "/schedule/offset_minutes")
    assert after is offset or type(after) is float
    assert told(plan_of(stands, TABLE, line)) == [
        (1, "noop", None),
        (2, "create", None),
        (None, "delete", FIRST),
    ]


def test_another_kind_under_the_same_id_is_refused_and_without_it_is_a_delete_and_a_create():
    stands = standing(
        stored_trigger(FIRST, on="schedule", schedule=DUE), kinds={FIRST: "date_column_reached"}
    )
    line = a_line(on="schedule", schedule={"type": "interval", "every_seconds": 60})

    with pytest.raises(InvalidInput) as caught:
        plan_of(stands, TABLE, {**line, "id": FIRST})

    assert caught.value.message == (
        "schedule_kind_change_requires_new_trigger_id: trigger 'trg_000000000001' changes its"
        " schedule type in place. retire the old trigger id and create the new schedule kind under"
        " a new trigger id"
    )
    assert caught.value.faults[0].pointer == "/2/schedule/type"
    assert told(plan_of(stands, TABLE, line))[1:] == [
        (2, "create", None),
        (None, "delete", FIRST),
    ]


def test_a_kind_that_is_long_retired_counts_too():
    line = a_line(id=FIRST, on="schedule", schedule=DUE)

    assert faults_of(standing(kinds={FIRST: "cron"}), line) == [
        ("/1/schedule/type", "schedule_kind_change_requires_new_trigger_id")
    ]


def test_a_table_without_a_line_keeps_the_triggers_without_lines():
    stands = standing(stored_trigger(FIRST), stored_trigger(SECOND), stored_trigger(THIRD))

    plan = plan_of(stands, a_line(name="new"), a_line(id=SECOND, name="b"))

    assert told(plan) == [(1, "create", None), (2, "update", SECOND)]
    assert [one.body.get("id") for one in plan.tables[0].triggers] == [FIRST, SECOND, THIRD, None]


def test_another_order_of_triggers_is_a_change_of_the_table():
    stands = standing(stored_trigger(FIRST), stored_trigger(SECOND), stored_trigger(THIRD))

    plan = plan_of(stands, TABLE, a_line(id=THIRD), a_line(name="new"), a_line(id=FIRST))

    assert told(plan)[0] == (1, "update", None)
    assert changes(plan)[0] == ("move", "/triggers", [FIRST, THIRD], [THIRD, FIRST])
    assert plan.tables[0].sets_triggers


def test_new_triggers_between_those_that_stand_are_no_other_order():
    stands = standing(stored_trigger(FIRST), stored_trigger(SECOND))

    plan = plan_of(stands, TABLE, a_line(id=FIRST), a_line(name="new"), a_line(id=SECOND))

    assert told(plan)[0] == (1, "noop", None)


def test_columns_are_known_by_their_ids():
    due, day, _, amount = WRITTEN
    columns = [
        {**day, "name": "tag"},
        due,
        {"name": "status", "type": "select", "options": ["a"]},
        {"name": "new", "type": "text"},
    ]

    plan = plan_of(standing(), {**TABLE, "columns": columns, "approval": "required"})

    assert changes(plan) == [
        ("replace", "/approval", "none", "required"),
        ("rename", "/columns/0/name", "day", "tag"),
        ("replace", "/columns/2/type", "text", "select"),
        ("add", "/columns/2/options", None, ["a"]),
        ("add", "/columns/3", None, {"id": "c5", "name": "new", "type": "text"}),
        ("remove", "/columns", amount, None),
        ("move", "/columns", ["due", "tag", "status"], ["tag", "due", "status"]),
    ]


def test_what_a_line_does_not_say_of_its_table_stays():
    stands = standing(approval="required", channel_id=OTHER_ID)

    assert told(plan_of(stands, TABLE)) == [(1, "noop", None)]
    assert faults_of(stands, {**TABLE, "channel_id": None}) == [
        ("/1/channel_id", "table_channel_fixed")
    ]


def test_a_renamed_column_is_renamed_in_whatever_stands_and_names_it():
    other = a_table(
        id=OTHER_ID,
        name="cases",
        triggers=[
            stored_trigger(
                SECOND,
                actions=[
                    {
                        "type": "create_record",
                        "table_id": str(a_table().id),
                        "data": {"due": "$now"},
                    }
                ],
            )
        ],
    )
    own = stored_trigger(
        FIRST, on="schedule", schedule=DUE, actions=[{**AN_ACTION, "payload": "$row.due"}]
    )
    stands = standing(own)
    stands = replace(
        stands,
        tables={**stands.tables, "cases": other},
        names={**stands.names, OTHER_ID: "cases"},
    )
    renamed = [{**WRITTEN[0], "name": "faellig"}, *WRITTEN[1:]]

    plan = plan_of(
        stands,
        {**TABLE, "columns": renamed},
        a_line(
            id=FIRST,
            on="schedule",
            schedule={**DUE, "column": "faellig"},
            actions=[{**AN_ACTION, "payload": "$row.faellig"}],
        ),
        a_line(
            id=SECOND,
            table="cases",
            actions=[{"type": "create_record", "table": "orders", "data": {"faellig": "$now"}}],
        ),
    )

    assert [item.action for item in plan.items] == ["update", "noop", "noop"]
    # They are judged anew all the same, by the columns as they are then.
    assert [table.sets_triggers for table in plan.tables] == [True, False]


def test_a_column_that_only_the_document_has_is_never_given_a_number_twice():
    columns = [a_column(id="c9", name="due").to_json()]

    plan = plan_of(standing(), {**TABLE, "columns": columns})

    # No column has the id: the name says which one is meant.
    assert [column.id for column in plan.tables[0].columns] == ["c1"]


def test_names_that_lead_nowhere_or_to_several_tables_are_told_on_their_lines():
    stands = Stored(names={OTHER_ID: "cases"}, ambiguous={"twice"})
    action = {"type": "create_record", "table": "nowhere", "data": {}}

    assert faults_of(
        stands,
        {**TABLE, "name": "twice"},
        a_line(table="absent", actions=[action]),
        {**TABLE, "name": "fine"},
        a_line(table="fine", actions=[{**action, "table": "cases"}, {**action, "table": "twice"}]),
        {**TABLE, "name": "odd", "columns": [{"name": "a", "type": "colour"}]},
    ) == [
        ("/1/name", "table_ambiguous"),
        ("/2/table", "table_unknown"),
        ("/2/actions/0/table", "table_unknown"),
        ("/4/actions/1/table", "table_ambiguous"),
        ("/5/columns/0/type", "column_invalid"),
    ]


def test_what_cannot_be_read_as_a_trigger_is_planned_to_be_refused_when_it_is_saved():
    plan = plan_of(
        standing(stored_trigger(FIRST)), {"kind": "trigger", "table": "orders", "id": FIRST}
    )

    assert told(plan) == [(1, "update", FIRST)]
    assert {change[1] for change in changes(plan)} == {"/on", "/actions"}


def test_differences_beyond_a_hundred_are_cut_and_said_to_be():
    long = [{"column": "status", "op": "eq", "value": "a"}] * 101
    plan = plan_of(
        standing(stored_trigger(FIRST)), a_line(id=FIRST, when=long), a_line(name="other")
    )

    assert (len(plan.items[0].changes), plan.items[0].more_changes) == (100, True)
    assert count_actions(plan.items)["create"] == 1


def test_triggers_that_no_save_of_ours_has_left_are_passed_over():
    broken = stored_trigger(FIRST)
    del broken["id"]

    plan = plan_of(standing("text", None, broken), TABLE, a_line())

    assert told(plan)[1:] == [(2, "adopt", None)]
