import re
from uuid import uuid4

import pytest
from psycopg import Cursor

from shared.domain.columns import Column
from shared.domain.faults import child
from shared.errors import InvalidInput, NotFound, StaleVersion
from shared.queries.custom_tables import get_table
from shared.usecases.manage_tables import trash_table
from shared.usecases.set_triggers import MAX_TRIGGERS, set_triggers
from tests.builders import AN_ACTION, SCHEDULES, a_trigger
from tests.builders_db import COLUMNS, NOW, insert_table, insert_tenant, row_of
from tests.builders_delayed import insert_link
from tests.integration.usecases.world import (
    CLOCKS,
    CRON,
    DAILY,
    DATE,
    HOUR,
    INTERVAL,
    MINUTE,
    OTHER_ID,
    TRIGGER_ID,
    a_known,
    at,
    hear,
    save,
    state_of,
    stored_triggers,
)

NOTIFY = {"type": "notify", "chatroom_id": "11111111-1111-4111-8111-111111111111", "message": "m"}


def _faults(conn, table, *triggers):
    """Return what keeps the triggers from being saved, and make sure that nothing was."""
    before = row_of(conn, "custom_table", table.id)
    with pytest.raises(InvalidInput) as caught:
        save(conn, table, *triggers)
    assert row_of(conn, "custom_table", table.id) == before
    assert state_of(conn, TRIGGER_ID) is None
    return caught.value.faults


def test_a_trigger_without_an_id_gets_one(conn):
    [stored] = save(conn, insert_table(conn), a_trigger()).triggers

    assert re.fullmatch("trg_[0-9a-f]{12}", stored["id"])


def test_a_given_id_stays(conn):
    [stored] = save(conn, insert_table(conn), a_known()).triggers

    assert stored["id"] == TRIGGER_ID


def test_an_entry_without_an_id_is_a_new_trigger_even_when_it_equals_a_stored_one(conn):
    table = insert_table(conn)
    [first] = save(conn, table, a_trigger()).triggers

    [second] = save(conn, table, a_trigger()).triggers

    assert second["id"] != first["id"]
    assert state_of(conn, first["id"]).retired_at == NOW
    assert state_of(conn, second["id"]).retired_at is None


def test_a_new_id_was_never_one_of_the_table(conn):
    table = insert_table(conn)
    save(conn, table, a_known())
    save(conn, table)
    third, fourth = "trg_00000000cccc", "trg_00000000dddd"
    made = iter([TRIGGER_ID, OTHER_ID, third, third, fourth])

    saved = save(
        conn, table, a_trigger(), a_trigger(), a_known(id=OTHER_ID), make_id=lambda: next(made)
    )

    assert [one["id"] for one in saved.triggers] == [third, fourth, OTHER_ID]


def test_what_is_stored_is_the_normal_form(conn):
    table = insert_table(conn)

    save(
        conn,
        table,
        a_known(schedule={**DATE, "offset_minutes": 0}),
        a_trigger(schedule={**DAILY, "timezone": "UTC"}, enabled=False),
        a_trigger(schedule={"type": "cron", "expression": " 0  9 * *\t* ", "timezone": "UTC"}),
    )

    stored = stored_triggers(conn, table)
    assert [one["schedule"] for one in stored] == [DATE, DAILY, CRON]
    assert [(one["name"], one["enabled"], one["when"]) for one in stored] == [
        ("", True, []),
        ("", False, []),
        ("", True, []),
    ]


def test_the_list_replaces_the_whole(conn):
    table = insert_table(conn)
    save(conn, table, a_known(), a_known(id=OTHER_ID))

    save(conn, table, a_known(id=OTHER_ID, name="left"))

    assert [one["name"] for one in stored_triggers(conn, table)] == ["left"]


def test_the_order_of_the_list_stays(conn):
    table = insert_table(conn)

    save(conn, table, *(a_trigger(name=name) for name in "bac"))

    assert [one["name"] for one in stored_triggers(conn, table)] == ["b", "a", "c"]


def test_saving_what_is_stored_changes_nothing(conn):
    table = insert_table(conn)
    saved = save(conn, table, a_known(schedule=DATE), *(a_trigger(schedule=one) for one in CLOCKS))
    rows = [row_of(conn, "custom_table", table.id), _states(conn)]

    again = save(conn, table, *saved.triggers, now=NOW + HOUR)

    assert again == saved
    assert [row_of(conn, "custom_table", table.id), _states(conn)] == rows


def _states(conn):
    return conn.execute("SELECT to_jsonb(s) FROM trigger_state AS s ORDER BY id").fetchall()


def test_a_save_that_changes_something_raises_the_revision_by_one(conn):
    table = insert_table(conn)

    saved = save(conn, table, a_known())

    assert (saved.revision, saved.updated_at) == (table.revision + 1, NOW)


def test_true_and_one_are_different_values_of_a_predicate(conn):
    table = insert_table(conn, columns=(*COLUMNS, Column(id="c9", name="any", type="json")))
    one = a_known(schedule=DATE, when=[{"column": "any", "op": "eq", "value": 1}])
    save(conn, table, one)

    save(conn, table, {**one, "when": [{"column": "any", "op": "eq", "value": True}]})

    assert stored_triggers(conn, table)[0]["when"][0]["value"] is True


def test_an_if_match_that_is_not_the_present_revision_is_refused(conn):
    table = insert_table(conn)
    save(conn, table, a_known(), expected_revision=1)

    with pytest.raises(StaleVersion):
        save(conn, table, expected_revision=1)

    assert len(stored_triggers(conn, table)) == 1


def test_a_table_that_is_absent_or_trashed_is_not_found(conn):
    table = insert_table(conn)
    trash_table(conn, table.id, now=NOW)

    with pytest.raises(NotFound):
        save(conn, table, a_known())
    with pytest.raises(NotFound):
        set_triggers(conn, uuid4(), [], now=NOW)


@pytest.mark.parametrize("raw", [None, {}, "triggers", 1, [a_trigger()] * (MAX_TRIGGERS + 1)])
def test_what_is_no_list_of_at_most_a_hundred_is_refused(conn, raw):
    with pytest.raises(InvalidInput) as caught:
        set_triggers(conn, insert_table(conn).id, raw, now=NOW)

    assert caught.value.code == "triggers_invalid"
    assert caught.value.faults[0].pointer == "/triggers"


def test_a_hundred_triggers_are_taken(conn):
    saved = save(conn, insert_table(conn), *[a_trigger()] * MAX_TRIGGERS)

    assert len({one["id"] for one in saved.triggers}) == MAX_TRIGGERS


def test_an_id_that_stands_twice_is_told_of_both(conn):
    faults = _faults(conn, insert_table(conn), a_known(), a_trigger(), a_known())

    assert [(fault.code, fault.pointer) for fault in faults] == [
        ("trigger_id_duplicate", "/triggers/0/id"),
        ("trigger_id_duplicate", "/triggers/2/id"),
    ]


@pytest.mark.parametrize(
    "trigger_id", ["trg_00000000AAAA", "trg_00000000aaa", "trg_00000000aaaa\n", "", None, 1]
)
def test_an_id_of_another_form_is_refused(conn, trigger_id):
    [fault] = _faults(conn, insert_table(conn), a_trigger(id=trigger_id))

    assert fault.pointer == "/triggers/0/id"


def test_the_faults_of_all_triggers_come_in_document_order(conn):
    bad_action = {"type": "no_such_type"}
    first = {
        "actions": [AN_ACTION, bad_action],
        "schedule": {"every_seconds": True, "type": "interval", "x": 1},
        "on": "schedule",
    }
    second = {"on": "schedule", "schedule": {"type": "monthly"}, "actions": [bad_action]}

    faults = _faults(conn, insert_table(conn), first, a_trigger(), second)

    assert [(fault.pointer, fault.code) for fault in faults] == [
        ("/triggers/0/actions/1/type", "action_type_unknown"),
        ("/triggers/0/schedule/every_seconds", "interval_seconds_invalid"),
        ("/triggers/0/schedule/x", "stored_schedule_invalid"),
        ("/triggers/2/schedule/type", "unsupported_schedule_type"),
        ("/triggers/2/actions/0/type", "action_type_unknown"),
    ]


@pytest.mark.parametrize(
    ("trigger", "message"),
    [
        (
            a_trigger(schedule={"type": "monthly"}),
            "invalid schedule type 'monthly'. valid types: "
            "date_column_reached, interval, daily, cron",
        ),
        (
            a_trigger(schedule=CRON, when=[{"column": "title", "op": "not_empty"}]),
            "cron_when_not_allowed: cron schedules are recordless and take no when predicates",
        ),
        (
            a_trigger(schedule=CRON, actions=[{**NOTIFY, "message": "${row.title}"}]),
            "cron schedules are recordless — '$row' tokens and row-targeted actions are invalid",
        ),
        (
            a_trigger(schedule=INTERVAL, actions=[{"type": "delete_record"}]),
            "delete_record requires record context — "
            "interval/daily schedule triggers fire with no record",
        ),
        (
            a_trigger(schedule=DAILY, actions=[{"type": "update_record", "data": {"title": "x"}}]),
            "update_record requires record context — "
            "interval/daily schedule triggers fire with no record",
        ),
    ],
)
def test_refusals_carry_the_messages_of_the_contract(conn, trigger, message):
    faults = _faults(conn, insert_table(conn), trigger)

    assert faults[0].message == message


def test_the_faults_of_actions_beside_a_broken_schedule_are_told_too(conn):
    trigger = {"on": "never", "schedule": 1, "actions": [{"type": "x"}], "when": 1}

    codes = [fault.code for fault in _faults(conn, insert_table(conn), trigger)]

    assert "action_type_unknown" in codes
    assert len(codes) == 4


def test_entries_that_are_no_objects_are_told(conn):
    faults = _faults(conn, insert_table(conn), 1, None, [])

    assert [fault.pointer for fault in faults] == [child("/triggers", n) for n in range(3)]


def test_an_action_may_name_a_table_of_the_same_tenant_alone(conn):
    table = insert_table(conn)
    sister = insert_table(conn, tenant_id=table.tenant_id)
    stranger = insert_table(conn, tenant_id=insert_tenant(conn))

    def creating(target):
        action = {"type": "create_record", "table_id": str(target.id), "data": {"title": "x"}}
        return a_trigger(actions=[action])

    save(conn, table, creating(sister))
    [fault] = _faults(conn, table, creating(stranger))

    assert fault.pointer == "/triggers/0/actions/0/table_id"


A_WAIT = {"mode": "waitForTracking", "expiresSeconds": 60, "trackingLink": "${row.title}"}


def test_a_delay_is_stored_as_it_was_written(conn):
    delays = [{"seconds": 60}, {**A_WAIT, "on_expire": [{**NOTIFY, "delay": {"seconds": 5}}]}]
    trigger = a_known(schedule=DATE, actions=[{**NOTIFY, "delay": delay} for delay in delays])
    table = insert_table(conn)

    [stored] = save(conn, table, trigger).triggers

    assert [action["delay"] for action in stored["actions"]] == delays
    assert save(conn, table, stored).revision == 2


@pytest.mark.parametrize("form", ["{}", "https://links.example/t/{}"])
def test_an_action_may_wait_for_a_link_of_its_own_tenant_that_it_names(conn, form):
    table = insert_table(conn)
    [own, foreign] = [
        row_of(conn, "tracking_link", insert_link(conn, tenant_id))["token"]
        for tenant_id in (table.tenant_id, insert_tenant(conn))
    ]

    def waiting(token):
        wait = {**A_WAIT, "trackingLink": form.format(token)}
        return a_known(schedule=DATE, actions=[NOTIFY, {**NOTIFY, "delay": wait}])

    for token in (foreign, own[:-1], "$event.link"):
        [fault] = _faults(conn, table, waiting(token))
        assert fault.code == "tracking_link_unknown"
        assert fault.pointer == "/triggers/0/actions/1/delay/trackingLink"
    assert save(conn, table, waiting(own)).revision == 2


def test_the_faults_of_delays_are_told_where_they_are(conn):
    wait = {**A_WAIT, "on_expire": [{"type": "no_such_type"}, {**NOTIFY, "message": "$row.no"}]}
    actions = [
        {"type": "notify", "delay": {"seconds": 0}, "message": ""},
        {**NOTIFY, "delay": wait, "on_error": "never"},
    ]

    faults = _faults(conn, insert_table(conn), a_trigger(schedule=DATE, actions=actions))

    assert [(fault.pointer, fault.code) for fault in faults] == [
        ("/triggers/0/actions/0/delay/seconds", "delay_out_of_bounds"),
        ("/triggers/0/actions/0/message", "action_invalid"),
        ("/triggers/0/actions/0/chatroom_id", "action_invalid"),
        ("/triggers/0/actions/1/delay/on_expire/0/type", "action_type_unknown"),
        ("/triggers/0/actions/1/delay/on_expire/1/message", "template_column_unknown"),
        ("/triggers/0/actions/1/on_error", "trigger_invalid"),
    ]


def test_a_table_outside_the_channel_that_an_expiry_writes_to_stays_allowed(conn):
    tenant_id, channel_id = insert_tenant(conn), uuid4()
    table = insert_table(conn, tenant_id=tenant_id, channel_id=channel_id)
    outside = insert_table(conn, tenant_id=tenant_id)
    create = {"type": "create_record", "table_id": str(outside.id), "data": {"title": "x"}}
    late = {**NOTIFY, "delay": {**A_WAIT, "on_expire": [create]}}
    trigger = a_known(schedule=DATE, actions=[late])
    with pytest.raises(InvalidInput) as caught:
        save(conn, table, trigger, channel_id=channel_id)
    save(conn, table, trigger)

    edited = save(conn, table, {**trigger, "name": "edited"}, channel_id=channel_id)

    [fault] = caught.value.faults
    assert fault.pointer == "/triggers/0/actions/0/delay/on_expire/0/table_id"
    assert edited.triggers[0]["name"] == "edited"


@pytest.mark.parametrize("kind", list(SCHEDULES))
def test_another_kind_of_schedule_under_the_same_id_is_refused(conn, kind):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=SCHEDULES[kind]))

    for other in SCHEDULES:
        if other != kind:
            _assert_kind_change_refused(conn, table, SCHEDULES[other])

    assert state_of(conn).kind == kind


def _assert_kind_change_refused(conn, table, schedule):
    with pytest.raises(InvalidInput) as caught:
        save(conn, table, a_known(schedule=schedule))
    assert caught.value.code == "schedule_kind_change_requires_new_trigger_id"
    assert caught.value.faults[0].pointer == "/triggers/0/schedule/type"
    assert caught.value.message == (
        "schedule_kind_change_requires_new_trigger_id: trigger 'trg_00000000aaaa' changes its "
        "schedule type in place. retire the old trigger id and create the new schedule kind under "
        "a new trigger id"
    )


def test_a_removed_trigger_keeps_its_kind(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    save(conn, table)

    _assert_kind_change_refused(conn, table, DAILY)


def test_a_trigger_that_went_to_an_event_keeps_its_kind(conn):
    table = insert_table(conn)
    save(conn, table, a_known(schedule=INTERVAL))
    save(conn, table, a_known(on="record_created"))

    _assert_kind_change_refused(conn, table, CRON)
    save(conn, table, a_known(schedule=INTERVAL))


def test_one_id_in_two_tables_has_two_states(conn):
    one, other = insert_table(conn), insert_table(conn)

    save(conn, one, a_known(schedule=INTERVAL))
    save(conn, other, a_known(schedule=DATE))

    found = conn.execute("SELECT table_id, kind FROM trigger_state ORDER BY id").fetchall()
    assert found == [(one.id, "interval"), (other.id, "date_column_reached")]


@pytest.mark.parametrize("on", ["record_created", "record_updated", "record_deleted"])
def test_a_trigger_on_an_event_has_no_state(conn, on):
    save(conn, insert_table(conn), a_known(on=on))

    assert state_of(conn) is None


def test_a_new_state_has_its_anchor_cut_to_the_second_and_wants_a_look_at_once(conn):
    saved_at = NOW.replace(microsecond=999_999)

    save(conn, insert_table(conn), a_known(schedule=INTERVAL), now=saved_at)

    state = state_of(conn)
    assert (state.anchor_at, state.next_due_at) == (NOW, saved_at)
    assert state.schedule == INTERVAL


def test_the_anchor_of_a_daily_is_the_start_of_the_local_day(conn):
    taipei = {"type": "daily", "at": "01:30", "timezone": "Asia/Taipei"}

    save(conn, insert_table(conn), a_known(schedule=taipei), now=at("2026-07-25 20:00"))

    assert state_of(conn).anchor_at == at("2026-07-25 16:00")


def test_a_date_trigger_has_no_windows(conn):
    save(conn, insert_table(conn), a_known(schedule=DATE))

    state = state_of(conn)
    assert (state.last_window_at, state.next_due_at, state.cursor) == (None, None, None)


def test_a_save_that_gives_the_scheduler_work_wakes_it(conn, other_conn):
    table = insert_table(conn)
    heard = hear(other_conn, "duebook_due")

    save(conn, table, a_known())
    assert heard() == 1
    save(conn, table, a_known(name="called otherwise", enabled=False))
    assert heard() == 0
    save(conn, table, a_known(enabled=True))
    assert heard() == 1
    save(conn, table)
    assert heard() == 0


def test_a_table_that_another_session_has_is_waited_for(conn, other_conn):
    table = insert_table(conn)
    with other_conn.transaction():
        save(other_conn, table, a_known())

    saved = save(conn, get_table(conn, table.id), a_known(), a_trigger())

    assert saved.revision == 3


def test_a_lost_state_is_made_again_by_the_next_save(conn):
    table = insert_table(conn)
    saved = save(conn, table, a_known())
    conn.execute("DELETE FROM trigger_state")

    again = save(conn, table, *saved.triggers, now=NOW + MINUTE)

    assert again.revision == saved.revision
    assert state_of(conn).anchor_at == NOW + MINUTE


def test_a_table_that_many_triggers_name_is_looked_up_once(conn):
    table = insert_table(conn)
    other = insert_table(conn, tenant_id=table.tenant_id)
    write = {"type": "create_record", "table_id": str(other.id), "data": {"title": "$row.title"}}
    looked_up = []

    class Noting(Cursor):
        def execute(self, query, params=None, **options):
            if params and params.get("table_id") == other.id:
                looked_up.append(query)
            return super().execute(query, params, **options)

    conn.cursor_factory = Noting
    save(conn, table, *(a_trigger(actions=[write, write]) for _ in range(3)))

    [query] = looked_up
    assert "NULL AS triggers" in query  # they may be a megabyte
