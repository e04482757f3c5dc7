"""The statements that ask for the invariants: each is heard when it is broken."""

from datetime import timedelta

import pytest
from psycopg.types.json import Jsonb

from shared.queries.invariants import INVARIANTS, list_violations
from tests.builders_db import (
    LONG_AGO,
    NOW,
    insert_definition,
    insert_records,
    insert_row,
    insert_run,
    insert_state,
    insert_table,
    update_all,
)

CLOCK, DATE, EVENT = "trg_00000000000a", "trg_00000000000b", "trg_00000000000c"
WINDOW = LONG_AGO + timedelta(hours=1)
FIRED = LONG_AGO + timedelta(hours=2)


def _freeze(conn, table, trigger):
    actions = [{"type": "notify"}, {"type": "create_record"}]
    body = {"v": 1, "trigger": {"id": trigger, "actions": actions}, "columns": []}
    return insert_definition(conn, table.tenant_id, body)


@pytest.fixture(autouse=True)
def workspace(conn):
    """A table on which a clock, a date and an event trigger have each fired once."""
    table = insert_table(
        conn, triggers=[{"id": CLOCK}, {"id": DATE, "enabled": True}, {"id": EVENT}]
    )
    record, made = insert_records(conn, table, [{"c2": "2020-01-01 02:00"}, {}])
    clock = insert_state(
        conn, table, kind="interval", trigger_id=CLOCK, last_window_at=WINDOW, next_due_at=NOW
    )
    date = insert_state(conn, table, trigger_id=DATE)
    message = {"tenant_id": table.tenant_id, "chatroom_id": table.id, "message": "hello"}
    message_id = insert_row(conn, "chat_message", origin_key="k", created_at=FIRED, **message)
    receipts = [
        {"type": "notify", "ok": True, "message_id": message_id},
        {"type": "create_record", "ok": True, "record_id": made.id},
    ]
    done = {
        "status": "done",
        "attempts": 1,
        "starts": 1,
        "created_at": FIRED,
        "action_results": Jsonb(receipts),
    }
    row = {"record_id": record.id, "snapshot": Jsonb(record.data)}
    for state, own in (
        (
            clock,
            {"kind": "interval", "identity": "2020-01-01T01:00:00Z", "scheduled_for": WINDOW},
        ),
        (
            date,
            {"kind": "date_column_reached", "identity": "2020-01-01 02:00", **row},
        ),
    ):
        insert_run(
            conn,
            table,
            trigger_id=state.trigger_id,
            trigger_ref=state.ref,
            definition_hash=_freeze(conn, table, state.trigger_id),
            **done | own,
        )
        conn.execute(
            "INSERT INTO occurrence VALUES (%s, %s, %s, true, %s)",
            [state.ref, own.get("record_id", 0), own["identity"], FIRED],
        )
    insert_run(
        conn,
        table,
        trigger_id=EVENT,
        identity="record_created:1",
        definition_hash=_freeze(conn, table, EVENT),
        **done | row,
    )
    conn.execute(
        "INSERT INTO due_value VALUES (%s, %s, %s, 1, %s)",
        [date.ref, record.id, table.tenant_id, NOW],
    )


def _violations(conn):
    return list_violations(conn, settled_before=NOW - timedelta(minutes=5), limit=10)


def test_a_sound_database_shows_nothing(conn):
    assert _violations(conn) == []


_OVERDUE = (
    "UPDATE due_value SET fire_at = '2026-07-25 08:00Z'",
    "UPDATE trigger_state SET next_due_at = '2026-07-25 08:00Z' WHERE kind = 'interval'",
)


@pytest.mark.parametrize(
    ("overdue", "just_written"),
    [(_OVERDUE[0], "record"), (_OVERDUE[0], "custom_table"), (_OVERDUE[1], "custom_table")],
)
def test_what_was_due_long_before_it_was_written_is_not_forgotten_yet(conn, overdue, just_written):
    conn.execute(overdue)
    assert len(_violations(conn)) == 1

    update_all(conn, just_written, updated_at=NOW)

    assert _violations(conn) == []


_RUN_AGAIN = """
INSERT INTO trigger_run (
    tenant_id, table_id, trigger_id, trigger_ref, kind, record_id, identity, scheduled_for,
    definition_hash, snapshot, status, attempts, starts, action_results, created_at, updated_at,
    finished_at
)
SELECT
    tenant_id, table_id, trigger_id, trigger_ref, kind, record_id, identity, scheduled_for,
    definition_hash, snapshot, status, attempts, starts, action_results, created_at, updated_at,
    finished_at
FROM trigger_run
WHERE kind = 'KIND'
"""


def _again(kind):
    """A second run of what fired."""
    return _RUN_AGAIN.replace("KIND", kind)


PLANTED = [
    ("I1", "ALTER TABLE occurrence DROP CONSTRAINT an_identity_is_consumed_once"),
    ("I1", _again("record_created")),
    ("I2", "DELETE FROM occurrence WHERE record_id <> 0"),
    ("I2", "UPDATE occurrence SET by_run = false WHERE record_id <> 0"),
    ("I2", "UPDATE occurrence SET consumed_at = consumed_at + interval '1 s'"),
    ("I2", "INSERT INTO occurrence VALUES (77, 7, '2020-01-01 02:00', false, '2020-01-01 02:00Z')"),
    ("I2", _again("date_column_reached")),
    ("I2", _again("interval")),
    ("I3", "UPDATE trigger_state SET next_due_at = '2026-07-25 08:00Z' WHERE kind = 'interval'"),
    ("I3", "UPDATE due_value SET fire_at = '2026-07-25 08:00Z'"),
    ("I4", "UPDATE trigger_run SET scheduled_for = created_at + interval '1 s'"),
    ("I4", "UPDATE occurrence SET consumed_at = '2019-01-01Z' WHERE record_id = 0"),
    (
        "I4",
        "INSERT INTO occurrence SELECT id, 7, '2020-02-02 02:01', true, '2020-01-03 02:00Z'"
        " FROM trigger_state WHERE kind = 'date_column_reached'",
    ),
    ("I5", "DROP INDEX one_active_run_per_clock_trigger"),
    ("I8", "ALTER TABLE trigger_run DROP CONSTRAINT pending_can_be_found"),
    (
        "I8",
        "UPDATE trigger_run SET status = 'running', worker_id = 1,"
        " leased_until = '2026-07-25 08:54Z', finished_at = NULL"
        " WHERE kind = 'interval'",
    ),
    (
        "I8",
        "UPDATE trigger_run SET status = 'pending', announce_at = '2026-07-25 08:54Z',"
        " next_attempt_at = '2020-01-01Z', finished_at = NULL"
        " WHERE kind = 'interval'",
    ),
    ("I9", "UPDATE trigger_run SET open_action = 1 WHERE kind = 'interval'"),
    ("I10", "DROP INDEX a_record_is_made_once"),
    ("I10", "UPDATE chat_message SET id = DEFAULT"),
    ("I10", "UPDATE record SET id = DEFAULT WHERE data = '{}'"),
    ("I11", "UPDATE trigger_run SET action_results = action_results - 1 WHERE kind = 'interval'"),
    (
        "I11",
        "UPDATE trigger_run SET action_results = jsonb_set(action_results, '{1,ok}', 'false')"
        " WHERE kind = 'interval'",
    ),
    (
        "I11",
        "UPDATE trigger_run SET action_results = action_results #- '{1,ok}'"
        " WHERE kind = 'interval'",
    ),
    ("I12", "ALTER TABLE trigger_run DROP CONSTRAINT failed_has_a_reason"),
    ("I8", "ALTER TABLE scheduled_action DROP CONSTRAINT pending_can_be_found"),
    ("I10", "DROP INDEX one_step_per_node"),
    ("I12", "ALTER TABLE scheduled_action DROP CONSTRAINT an_end_has_a_reason"),
    ("I14", "ALTER TABLE scheduled_action DROP CONSTRAINT only_a_wait_branches"),
    (
        "I16",
        "ALTER TABLE scheduled_action DROP CONSTRAINT scheduled_action_tenant_id_line_user_id_fkey",
    ),
    ("I13", "UPDATE trigger_run SET attempts = 5, starts = 5 WHERE kind = 'interval'"),
    ("I13", "UPDATE trigger_run SET attempts = 2 WHERE kind = 'interval'"),
    ("I13", "UPDATE trigger_run SET worker_losses = 5 WHERE kind = 'interval'"),
    (
        "I15",
        "UPDATE trigger_state SET last_window_at = '2020-01-01 03:00Z' WHERE kind = 'interval'",
    ),
    ("I15", "UPDATE trigger_state SET anchor_at = '2020-01-01 01:01Z' WHERE kind = 'interval'"),
    ("I16", "ALTER TABLE record DROP CONSTRAINT record_tenant_id_table_id_fkey"),
    (
        "I16",
        "UPDATE trigger_run SET trigger_id = 'trg_00000000000a' WHERE kind = 'date_column_reached'",
    ),
    (
        "I16",
        """
        WITH other AS (
            INSERT INTO custom_table (
                tenant_id, name, columns, columns_made, created_at, updated_at
            )
            SELECT tenant_id, 'other', '[]', 0, '2020-01-01Z', '2020-01-01Z' FROM custom_table
            RETURNING id
        )
        UPDATE record SET table_id = other.id FROM other
        """,
    ),
    (
        "I16",
        """
        WITH other AS (
            INSERT INTO tenant (name, created_at) VALUES ('other', '2020-01-01Z') RETURNING id
        )
        UPDATE due_value SET tenant_id = other.id FROM other
        """,
    ),
    (
        "I16",
        """
        WITH other AS (
            INSERT INTO tenant (name, created_at) VALUES ('other', '2020-01-01Z') RETURNING id
        )
        INSERT INTO held_value (trigger_ref, record_id, tenant_id, fire_at)
        SELECT due_value.trigger_ref, due_value.record_id, other.id, due_value.fire_at
        FROM due_value, other
        """,
    ),
    (
        "I16",
        """
        ALTER TABLE record DROP CONSTRAINT a_slot_is_of_a_roster;
        UPDATE record SET roster_id = tenant_id
        """,
    ),
    (
        "I17",
        """UPDATE definition SET body = jsonb_set(body, '{trigger,id}', '"trg_00000000000b"')""",
    ),
    ("I17", "UPDATE trigger_run SET snapshot = '{}' WHERE kind = 'interval'"),
    (
        "I18",
        """
        INSERT INTO scp_rule (tenant_id, table_id, position, operations, chatrooms)
        SELECT tenant_id, id, 0, '{read}', ARRAY[id] FROM custom_table LIMIT 1
        """,
    ),
    (
        "I18",
        "UPDATE custom_table SET triggers = NULL, channel_id = tenant_id, scp_ruled = true",
    ),
    ("I17", "UPDATE trigger_run SET snapshot = NULL WHERE kind = 'date_column_reached'"),
]


@pytest.mark.parametrize(("number", "plant"), PLANTED)
def test_a_planted_violation_is_found(conn, number, plant):
    conn.execute(plant)

    assert number in {violation.invariant for violation in _violations(conn)}


def test_every_invariant_that_is_asked_has_been_planted():
    assert {invariant.number for invariant in INVARIANTS} == {number for number, _ in PLANTED}


def test_each_key_that_holds_tenants_apart_is_asked_for(conn):
    keys = """
        SELECT conrelid::regclass || '.' || conname
        FROM pg_constraint
        WHERE contype = 'f'
            AND convalidated
            AND cardinality(conkey) > 1
            AND connamespace = 'public'::regnamespace
            AND EXISTS (
                SELECT
                FROM pg_attribute
                WHERE attrelid = conrelid AND attnum = ANY(conkey) AND attname = 'tenant_id'
            )
    """
    asked = {
        name
        for invariant in INVARIANTS
        if invariant.number == "I16"
        for name in invariant.parameters.get("constraints", [])
    }

    assert {key for (key,) in conn.execute(keys)} == asked


def test_of_many_violations_as_many_as_asked_for_are_told(conn):
    conn.execute("UPDATE trigger_run SET attempts = 4")

    found = list_violations(conn, settled_before=LONG_AGO, limit=2)

    assert [violation.invariant for violation in found] == ["I13", "I13"]


def test_the_budget_of_executions_is_the_one_that_was_set(conn):
    conn.execute("UPDATE trigger_run SET attempts = 6, starts = 6")

    def broken(**more):
        found = list_violations(conn, settled_before=LONG_AGO, limit=2, **more)
        return {violation.invariant for violation in found}

    assert (broken(), broken(max_retries=9)) == ({"I13"}, set())
