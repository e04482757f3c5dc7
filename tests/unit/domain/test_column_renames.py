"""Triggers follow the columns that they name."""

from uuid import UUID

from hypothesis import given

from shared.domain.column_renames import (
    rename_columns,
    rename_in_actions,
    rename_in_nodes,
    rename_written_columns,
)
from tests.builders import TABLE_ID, a_stored_trigger
from tests.strategies import json_values

ELSEWHERE = UUID(int=9)


def renamed(trigger, **renames):
    return rename_columns([trigger], renames, table_id=TABLE_ID)[0]


def with_actions(*actions):
    return a_stored_trigger(actions=list(actions))


def creating(table_id, **data):
    return {"type": "create_record", "table_id": table_id, "data": data}


def test_schedule_predicates_and_tokens_are_rewritten():
    trigger = a_stored_trigger(
        schedule={"type": "date_column_reached", "column": "due", "offset_minutes": -60},
        when=[
            {"column": "due", "op": "not_empty"},
            {"column": "status", "op": "eq", "value": "due"},
        ],
        actions=[{"type": "notify", "message": "due: $row.due ${row.status}"}],
    )

    assert renamed(trigger, due="到期 時間", status="state") == trigger | {
        "schedule": {"type": "date_column_reached", "column": "到期 時間", "offset_minutes": -60},
        "when": [
            {"column": "到期 時間", "op": "not_empty"},
            {"column": "state", "op": "eq", "value": "due"},
        ],
        "actions": [{"type": "notify", "message": "due: ${row.到期 時間} ${row.state}"}],
    }


def test_written_cells_of_the_table_are_rewritten():
    own = str(TABLE_ID).upper()
    trigger = with_actions(
        {"type": "update_record", "data": {"a": "$row.a", "b": 1}},
        {"type": "update_record", "target": 7, "data": {"a": 1}},
        creating(own, a="${row.b}"),
        creating(str(ELSEWHERE), a="$row.a"),
    )

    assert renamed(trigger, a="x")["actions"] == [
        {"type": "update_record", "data": {"x": "$row.x", "b": 1}},
        {"type": "update_record", "target": 7, "data": {"x": 1}},
        creating(own, x="${row.b}"),
        creating(str(ELSEWHERE), a="$row.x"),
    ]


def test_two_columns_swap_their_names():
    trigger = with_actions({"type": "update_record", "data": {"a": "$row.b", "b": "$row.a"}})

    assert renamed(trigger, a="b", b="a")["actions"] == [
        {"type": "update_record", "data": {"b": "$row.a", "a": "$row.b"}}
    ]


def waiting(*on_expire, **settings):
    wait = {"mode": "waitForTracking", "delaySeconds": 5, "trackingLink": "$row.a"}
    return {"type": "notify", **settings, "delay": {**wait, "on_expire": list(on_expire)}}


def test_delays_and_what_runs_when_they_expire_are_rewritten():
    trigger = with_actions(
        waiting(
            {"type": "notify", "message": "$row.a"},
            {"type": "update_record", "data": {"a": "$row.a"}},
            creating(str(TABLE_ID), a="${row.a}", b=1),
            creating(str(ELSEWHERE), a="$row.a"),
            message="$row.a",
        )
    )

    [action] = renamed(trigger, a="x y")["actions"]

    assert action["message"] == "${row.x y}"
    assert action["delay"] == {
        "mode": "waitForTracking",
        "delaySeconds": 5,
        "trackingLink": "${row.x y}",
        "on_expire": [
            {"type": "notify", "message": "${row.x y}"},
            {"type": "update_record", "data": {"x y": "${row.x y}"}},
            creating(str(TABLE_ID), **{"x y": "${row.x y}", "b": 1}),
            creating(str(ELSEWHERE), a="${row.x y}"),
        ],
    }


def test_other_tables_follow_in_the_records_created_on_expiry():
    trigger = with_actions(
        waiting(creating(str(TABLE_ID), a="$row.a"), creating(str(ELSEWHERE), a=1))
    )

    assert rename_written_columns([trigger], {"a": "x"}, table_id=TABLE_ID) == [
        with_actions(waiting(creating(str(TABLE_ID), x="$row.a"), creating(str(ELSEWHERE), a=1)))
    ]


def test_what_is_not_named_stays():
    trigger = a_stored_trigger(
        schedule={"type": "daily", "at": "09:00"},
        actions=[{"type": "webhook", "url": "https://example.com/a", "payload": {"a": "a"}}],
    )

    assert renamed(trigger, a="x", at="x") == trigger


def test_other_tables_follow_in_the_records_they_create():
    trigger = with_actions(
        creating(str(TABLE_ID), a="$row.a"),
        creating(str(ELSEWHERE), a=1),
        {"type": "update_record", "data": {"a": 1}},
    )

    assert rename_written_columns([trigger], {"a": "x"}, table_id=TABLE_ID) == [
        with_actions(
            creating(str(TABLE_ID), x="$row.a"),
            creating(str(ELSEWHERE), a=1),
            {"type": "update_record", "data": {"a": 1}},
        )
    ]


def slots(roster, target, **named):
    columns = {"resource": "a", "start": "from", "end": "to", **named}
    return {
        "type": "materialize_slots",
        "roster": {
            "table_id": roster,
            **columns,
            "weekday": "day",
            "when": [{"column": "a", "op": "eq", "value": "a"}],
        },
        "target": {"table_id": target, **columns, "status": "a"},
        "slot_minutes": 30,
        "timezone": "a",
    }


def test_the_columns_of_a_roster_and_of_slots_are_those_of_their_tables():
    own, other = str(TABLE_ID), str(ELSEWHERE)
    renames = {"a": "x", "day": "weekday", own: "y"}

    [as_roster, as_target, neither] = rename_in_actions(
        [slots(own, other), slots(other, own), slots(other, other)], renames, table_id=TABLE_ID
    )

    before = slots(own, other)
    assert as_roster == before | {
        "roster": {
            **before["roster"],
            "resource": "x",
            "weekday": "weekday",
            "when": [{"column": "x", "op": "eq", "value": "a"}],
        }
    }
    before = slots(other, own)
    assert as_target == before | {"target": {**before["target"], "resource": "x", "status": "x"}}
    assert neither == slots(other, other)
    assert renamed(with_actions(slots(own, own)), a="x")["actions"] == rename_in_actions(
        [slots(own, own)], {"a": "x"}, table_id=TABLE_ID
    )


def test_actions_of_a_workflow_are_rewritten_in_every_branch():
    def nodes(**data):
        act = {"type": "action", "action": waiting(creating(str(TABLE_ID), **data))}
        wait = {"type": "wait_for_tracking", "clicked": [act], "not_clicked": [act]}
        branch = {"type": "branch", "when": [{"column": "event.a"}], "then": [wait], "else": [act]}
        return [act, branch, {"type": "delay", "seconds": 1}]

    assert rename_in_nodes(nodes(a="$event.a", b=1), {"a": "x"}, table_id=TABLE_ID) == nodes(
        x="$event.a", b=1
    )


@given(json_values)
def test_broken_triggers_are_no_exception(raw):
    broken = [raw, {"schedule": raw, "when": raw, "actions": raw}, {"when": [raw]}]
    broken.append({"actions": [raw, {"type": "update_record", "data": raw}]})
    broken.append({"actions": [{"type": "create_record", "table_id": raw, "data": raw}]})

    broken.append({"actions": [{"delay": raw}, {"delay": {"on_expire": raw}}, waiting(raw)]})

    assert len(rename_columns(broken, {"a": "b"}, table_id=TABLE_ID)) == 6
    assert len(rename_written_columns(broken, {"a": "b"}, table_id=TABLE_ID)) == 6

    named = {"table_id": str(TABLE_ID), "when": raw, "resource": raw}
    actions = [*broken, slots(raw, raw), {"type": "materialize_slots", "roster": named}]
    assert len(rename_in_actions(actions, {"a": "b"}, table_id=TABLE_ID)) == 8
    nodes = [*broken, {"type": "action", "action": raw}, {"type": "branch", "then": raw}]
    assert len(rename_in_nodes(nodes, {"a": "b"}, table_id=TABLE_ID)) == 8
