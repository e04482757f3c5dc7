from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID, uuid4

import psycopg
import pytest

from shared.domain.scp_rules import ScpRule
from shared.errors import InvalidInput, NotFound, StaleVersion
from shared.lifecycle import wait_until
from shared.queries.custom_tables import find_table, trash_table, update_definition
from shared.queries.scp_rules import list_rules
from shared.usecases.set_scp_rules import set_scp_rules
from shared.usecases.set_triggers import set_triggers
from tests.builders_db import NOW, insert_table
from tests.integration.usecases.world import waits_for_a_lock

CHANNEL = UUID(int=7)
ROOM = UUID(int=1)
RULES = [{"operations": ["read", "update"], "chatrooms": [str(ROOM)]}]
TRIGGER = {
    "on": "record_created",
    "actions": [{"type": "notify", "chatroom_id": str(ROOM), "message": "x"}],
}
STORED = [ScpRule(operations=("read", "update"), chatrooms=(ROOM,))]


def set_rules(conn, table, rules=RULES, **more):
    return set_scp_rules(conn, table.id, rules, now=NOW, **more)


def save_triggers(conn, table, triggers):
    return set_triggers(conn, table.id, triggers, now=NOW)


def refusal(call, *args):
    with pytest.raises(InvalidInput) as caught:
        call(*args)
    [fault] = caught.value.faults
    return fault.code, fault.pointer, fault.message


NO_TRIGGERS = (
    "triggers_beside_scp_rules",
    "/triggers",
    "a table with channel SCP rules takes no triggers: "
    "a trigger has no acting chatroom and so cannot meet the channel floor",
)
NO_RULES = (
    "scp_rules_beside_triggers",
    "/rules",
    "a table with triggers takes no channel SCP rules: "
    "a trigger has no acting chatroom and so cannot meet the channel floor",
)


@pytest.fixture
def table(conn):
    return insert_table(conn, channel_id=CHANNEL)


def test_rules_are_stored_and_replaced_as_a_whole(conn, table):
    first = set_rules(conn, table)
    assert (first.scp_ruled, first.revision) == (True, table.revision + 1)
    assert list_rules(conn, table) == STORED

    second = set_rules(conn, table, [])

    assert (second.scp_ruled, second.revision) == (False, table.revision + 2)
    assert list_rules(conn, table) == []


@pytest.mark.parametrize("rules", [RULES, []])
def test_saving_what_is_stored_changes_nothing(conn, table, rules):
    saved = set_rules(conn, table, rules)

    assert set_rules(conn, table, rules) == saved


def test_a_table_with_rules_takes_no_triggers(conn, table):
    set_rules(conn, table)

    assert refusal(save_triggers, conn, table, [TRIGGER]) == NO_TRIGGERS


def test_a_table_with_triggers_takes_no_rules(conn, table):
    save_triggers(conn, table, [TRIGGER])

    assert refusal(set_rules, conn, table) == NO_RULES
    assert list_rules(conn, table) == []


def test_an_empty_list_is_none_on_either_side(conn, table):
    save_triggers(conn, table, [TRIGGER])
    set_rules(conn, table, [])
    save_triggers(conn, table, [])
    assert set_rules(conn, table).scp_ruled

    save_triggers(conn, table, [])
    set_rules(conn, table, [])

    assert len(save_triggers(conn, table, [TRIGGER]).triggers) == 1


def test_a_table_without_a_channel_takes_no_rules(conn):
    table = insert_table(conn)

    code, pointer, _ = refusal(set_rules, conn, table)

    assert (code, pointer) == ("scp_rules_without_channel", "/rules")
    assert set_rules(conn, table, []) == table


def test_rules_are_replaced_only_in_the_version_that_was_seen(conn, table):
    with pytest.raises(StaleVersion):
        set_rules(conn, table, expected_revision=table.revision + 1)

    assert set_rules(conn, table, expected_revision=table.revision).scp_ruled


def test_a_table_that_is_absent_or_trashed_has_none(conn, table):
    trash_table(conn, table.id, now=NOW)

    with pytest.raises(NotFound):
        set_rules(conn, table)
    with pytest.raises(NotFound):
        set_scp_rules(conn, uuid4(), [], now=NOW)


@pytest.mark.parametrize("rules_first", [True, False])
@pytest.mark.parametrize("ends", ["committed", "rolled back"])
def test_of_two_saves_at_one_time_the_second_sees_what_became_of_the_first(
    conn, other_conn, table, rules_first, ends
):
    def rules(session):
        return set_rules(session, table)

    def triggers(session):
        return save_triggers(session, table, [TRIGGER])

    first, second = (rules, triggers) if rules_first else (triggers, rules)
    with ThreadPoolExecutor(1) as pool:
        with conn.transaction(force_rollback=ends == "rolled back"):
            first(conn)
            late = pool.submit(second, other_conn)
            assert wait_until(lambda: waits_for_a_lock(conn), seconds=10)
        if ends == "committed":
            assert refusal(late.result) == (NO_TRIGGERS if rules_first else NO_RULES)
        else:
            late.result()

    stored = find_table(conn, table.id)
    has_rules = rules_first == (ends == "committed")
    assert (stored.scp_ruled, bool(stored.triggers)) == (has_rules, not has_rules)


def test_the_database_holds_one_of_both_too(conn, table):
    stored = set_rules(conn, table)
    both = replace(stored, triggers=[TRIGGER])

    with pytest.raises(psycopg.errors.CheckViolation, match="rules_and_triggers"):
        update_definition(conn, both, now=NOW)
