from uuid import UUID

import pytest
from psycopg.sql import SQL, Identifier
from psycopg.types.json import Jsonb

from shared.domain.scheduled_actions import Execution
from shared.queries.claimed_actions import load_claimed
from tests.builders import LONG_AGO
from tests.builders_db import (
    NOW,
    insert_definition,
    insert_records,
    insert_table,
    insert_tenant,
)
from tests.builders_delayed import (
    NOTIFY,
    insert_action,
    insert_execution,
    insert_line_user,
    insert_link,
    insert_workflow,
)

LEASE = UUID(int=1)


@pytest.fixture
def tenant(conn):
    return insert_tenant(conn)


def _held(conn, tenant, **columns):
    return insert_action(conn, tenant, status="processing", lease_token=LEASE, **columns)


def _load(conn, *ids):
    return load_claimed(conn, ids, lease_token=LEASE)


def test_a_claimed_action_comes_with_all_that_it_needs(conn, tenant):
    table = insert_table(conn, tenant_id=tenant)
    [record] = insert_records(conn, table, [{"c1": "a"}])
    hash = insert_definition(conn, tenant)
    contact = insert_line_user(conn, tenant, display_name="Ann", attributes=Jsonb({"vip": True}))
    action_id = _held(
        conn,
        tenant,
        table_id=table.id,
        record_id=record.id,
        line_user_id=contact,
        definition_hash=hash,
        source_config=Jsonb({"when": []}),
        context=Jsonb({"run": {"id": 4}}),
        run_id=4,
        open_action=0,
    )

    [action] = _load(conn, action_id)

    assert (action.id, action.tenant_id, action.lease_token) == (action_id, tenant, LEASE)
    assert (action.attempts, action.starts, action.open_action) == (1, 1, 0)
    assert (action.action_type, action.action_config) == ("notify", NOTIFY)
    assert (action.source_config, action.context) == ({"when": []}, {"run": {"id": 4}})
    assert (action.definition_hash, action.run_id) == (hash, 4)
    assert (action.table_lives, action.record) == (True, record)
    assert action.line_user is not None
    assert (action.line_user.id, action.line_user.display_name) == (contact, "Ann")
    assert action.line_user.attributes == {"vip": True}
    assert (action.execution, action.links, action.unreadable) == (None, {}, None)


def test_a_step_comes_with_its_execution_and_the_links_of_it(conn, tenant):
    workflow = insert_workflow(conn, tenant)
    execution = insert_execution(conn, tenant, workflow, context=Jsonb({"order": 4}))
    place = {"execution_id": execution["execution_id"], "workflow_node_path": "1"}
    insert_link(conn, tenant, name="offer", token="t" * 32, **place)
    insert_link(conn, tenant, name="foreign")

    [action] = _load(conn, _held(conn, tenant, **execution))

    assert action.execution == Execution(
        id=execution["execution_id"],
        workflow_id=workflow,
        workflow_version=1,
        node_path="0",
        context={"order": 4},
        started_at=LONG_AGO,
    )
    assert action.links == {"offer": "t" * 32}


def test_a_subject_that_is_gone_is_none_and_its_id_tells_which(conn, tenant):
    table = insert_table(conn, tenant_id=tenant, trashed_at=NOW)
    [record] = insert_records(conn, table, [{}], deleted_at=NOW)
    contact = insert_line_user(conn, tenant, deleted_at=NOW)

    [action] = _load(
        conn,
        _held(conn, tenant, table_id=table.id, record_id=record.id, line_user_id=contact),
    )

    assert (action.line_user, action.record, action.table_lives) == (None, None, False)
    assert (action.line_user_id, action.record_id, action.table_id) == (
        contact,
        record.id,
        table.id,
    )


def test_a_record_that_stands_in_another_table_is_none(conn, tenant):
    table, other = (insert_table(conn, tenant_id=tenant) for _ in range(2))
    [record] = insert_records(conn, other, [{}])

    [action] = _load(conn, _held(conn, tenant, table_id=table.id, record_id=record.id))

    assert action.record is None


def test_actions_without_a_subject_have_none(conn, tenant):
    [action] = _load(conn, _held(conn, tenant))

    assert (action.table_id, action.table_lives, action.record, action.line_user) == (None,) * 4


def test_only_what_is_held_under_the_lease_is_loaded(conn, tenant):
    other = insert_action(conn, tenant, status="processing")
    pending = insert_action(conn, tenant, lease_token=LEASE)
    mine = [_held(conn, tenant) for _ in range(2)]

    assert [action.id for action in _load(conn, pending, *reversed(mine), other)] == mine


_DEEP = "[" * 3000 + "]" * 3000
_LONG_NUMBER = f'{{"a": {"9" * 5000}}}'


@pytest.mark.parametrize("column", ["action_config", "context"])
def test_one_that_cannot_be_read_says_so_and_spoils_no_other(conn, tenant, column):
    spoiled, sound = (_held(conn, tenant) for _ in range(2))
    spoil = SQL("UPDATE scheduled_action SET {} = %s::jsonb WHERE id = %s")
    conn.execute(spoil.format(Identifier(column)), [_LONG_NUMBER, spoiled])

    first, second = _load(conn, spoiled, sound)

    assert first.unreadable
    assert (first.id, first.action_results, first.action_config) == (spoiled, [], {})
    assert (second.unreadable, second.action_config) == (None, NOTIFY)


@pytest.mark.parametrize("column", ["context", "action_config", "source_config", "on_expire"])
@pytest.mark.parametrize("value", ["x", None, 5])
def test_a_document_of_another_form_makes_its_action_alone_unreadable(conn, tenant, column, value):
    spoiled = _held(conn, tenant, **{column: Jsonb(value)})
    sound = _held(conn, tenant)

    first, second = _load(conn, spoiled, sound)

    assert column in first.unreadable
    assert second.unreadable is None


def test_a_contact_or_record_that_cannot_be_read_makes_the_action_unreadable(conn, tenant):
    contact = insert_line_user(conn, tenant)
    conn.execute("UPDATE line_user SET attributes = %s::jsonb", [_LONG_NUMBER])
    table = insert_table(conn, tenant_id=tenant)
    [record] = insert_records(conn, table, [{}])
    conn.execute("UPDATE record SET data = jsonb_build_object('c1', %s::jsonb)", [_DEEP])

    loaded = _load(
        conn,
        _held(conn, tenant, line_user_id=contact),
        _held(conn, tenant, table_id=table.id, record_id=record.id),
    )

    assert all(action.unreadable for action in loaded)
