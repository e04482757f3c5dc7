from dataclasses import replace

import pytest

from shared.actions.failures import ActionFailed
from shared.domain.line_users import cells
from shared.queries.executions import get_execution
from shared.queries.line_users import find_line_user
from shared.queries.workflows import get_workflow, update_workflow
from tests.builders_db import LONG_AGO, insert_tenant
from tests.builders_delayed import insert_line_user, insert_workflow
from tests.builders_rules import action_node, wait_node
from tests.integration.actions.contexts import KEY, NOW, execute

NODES = [action_node(), wait_node()]


@pytest.fixture
def workflow(conn, workspace):
    """The id of a workflow that is called welcome."""
    return insert_workflow(conn, workspace.tenant.id, nodes=NODES, name="welcome")


@pytest.fixture
def contact(conn, workspace):
    return find_line_user(conn, workspace.tenant.id, insert_line_user(conn, workspace.tenant.id))


def on_event(context, contact=None, **event):
    """Return the context of an action that an event led to."""
    line_user = {} if contact is None else cells(contact)
    return replace(
        context, template=replace(context.template, row=None, event=event, line_user=line_user)
    )


def start(context, /, **settings):
    return execute({"type": "start_workflow", "workflow": "welcome", **settings}, context)


def started(conn, workspace, workflow, result):
    return get_execution(conn, workspace.tenant.id, workflow, result["execution_id"])


def count(conn):
    return conn.execute("SELECT count(*) FROM workflow_execution").fetchone()[0]


def test_it_starts_the_workflow_for_the_contact_of_the_event(conn, workspace, workflow, contact):
    context = on_event(workspace.context(), contact, order=1027)

    execution = started(conn, workspace, workflow, start(context))

    assert (execution.line_user_id, execution.context) == (contact.id, {"order": 1027})
    assert (execution.status, execution.node_path) == ("waiting", "0")
    assert (execution.depth, execution.started_at) == (1, NOW)
    assert execution.workflow_version == 1


def test_context_and_contact_may_be_given(conn, workspace, workflow, contact):
    given = {"title": "$row.案件名稱", "sum": "$row.amount", "constant": [1]}

    result = start(workspace.context(), line_user_id=contact.id, context=given)

    execution = started(conn, workspace, workflow, result)
    assert execution.context == {"title": "合約 A&B", "sum": 1.5, "constant": [1]}
    assert execution.line_user_id == contact.id


def test_a_row_has_no_contact_of_its_own(conn, workspace, workflow):
    execution = started(conn, workspace, workflow, start(workspace.context()))

    assert (execution.line_user_id, execution.context) == (None, {})


@pytest.mark.parametrize("as_told", [int, str, float])
def test_a_token_may_stand_for_the_contact(conn, workspace, workflow, contact, as_told):
    context = on_event(workspace.context(), contact=None, who=as_told(contact.id))

    execution = started(conn, workspace, workflow, start(context, line_user_id="$event.who"))

    assert execution.line_user_id == contact.id


@pytest.mark.parametrize("who", [None, "", "x", "²", True, 1.5, 0, -1, 2**63, "9" * 19, [1]])
def test_what_is_no_contact_starts_nothing(conn, workspace, workflow, who):
    context = on_event(workspace.context(), contact=None, who=who)

    with pytest.raises(ActionFailed, match="contact") as failed:
        start(context, line_user_id="$event.who")

    assert not failed.value.transient
    assert count(conn) == 0


def test_a_contact_of_another_tenant_or_a_deleted_one_starts_nothing(conn, workspace, workflow):
    foreign = insert_line_user(conn, insert_tenant(conn))
    deleted = insert_line_user(conn, workspace.tenant.id, deleted_at=LONG_AGO)

    for line_user_id in (foreign, deleted):
        with pytest.raises(ActionFailed, match=f"contact {line_user_id} does not exist"):
            start(workspace.context(), line_user_id=line_user_id)
    assert count(conn) == 0


def test_a_key_starts_once(conn, workspace, workflow, contact):
    context = on_event(workspace.context(), contact)
    first = start(context)
    again = start(context)
    other = start(replace(context, idempotency_key=KEY[:-1] + "x"))

    assert again == first
    assert other != first
    assert count(conn) == 2
    assert conn.execute("SELECT count(*) FROM scheduled_action").fetchone() == (2,)


def test_it_starts_the_version_of_that_moment(conn, workspace, workflow):
    stored = get_workflow(conn, workspace.tenant.id, workflow)
    update_workflow(conn, replace(stored, nodes=[wait_node()]), now=NOW)

    execution = started(conn, workspace, workflow, start(workspace.context()))

    assert execution.workflow_version == 2


@pytest.mark.parametrize(
    "change",
    ["UPDATE workflow SET name = 'other'", "UPDATE workflow SET deleted_at = '2020-01-01Z'"],
    ids=["renamed", "deleted"],
)
def test_a_workflow_that_is_gone_is_not_started(conn, workspace, workflow, change):
    conn.execute(change)

    with pytest.raises(ActionFailed, match="the workflow 'welcome' no longer exists"):
        start(workspace.context())


def test_a_workflow_of_another_tenant_is_not_started(conn, workspace):
    insert_workflow(conn, insert_tenant(conn), nodes=NODES, name="welcome")

    with pytest.raises(ActionFailed, match="no longer exists"):
        start(workspace.context())


def test_a_chain_is_cut_at_its_depth(conn, workspace, workflow):
    assert start(replace(workspace.context(), depth=7))

    with pytest.raises(ActionFailed, match="cut at depth 8"):
        start(replace(workspace.context(), depth=8, idempotency_key="x"))
    assert count(conn) == 1


def test_a_context_that_is_too_large_starts_nothing(conn, workspace, workflow):
    context = on_event(workspace.context(), a="x" * 60_000)

    with pytest.raises(ActionFailed, match="at most"):
        start(context, context={"a": "$event.a", "b": "$event.a"})
    assert count(conn) == 0
