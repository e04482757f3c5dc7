"""From an event over rules and workflows to what is done in the end (spec 3 §1 and §6)."""

import json
import re
from pathlib import Path

import pytest

from shared.db.clock import server_now
from shared.queries.executions import list_executions
from shared.tracking.click_store import PostgresClicks
from shared.usecases.manage_rules import RuleDraft, make_rule
from shared.usecases.manage_workflows import make_workflow
from shared.usecases.take_event import NewEvent, settle, take_event
from shared.usecases.tenant_limits import WaitingLimit
from tests.builders_db import insert_tenant
from tests.builders_delayed import insert_line_user
from tests.integration.worker.conftest import PUBLIC_URL
from tests.integration.worker.runs import notify
from tests.integration.worker.waits import a_link, act, click, wait_for_click

pytestmark = pytest.mark.usefixtures("nothing_broken")

CLICKS = PostgresClicks()
WAIT = {"mode": "waitForTracking", "expiresSeconds": 3600, "trackingLink": "$event.link"}
_EXAMPLE = re.compile(r"^post (\S+) <<'JSON'\n(.*?)^JSON$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def tenant_id(conn):
    return insert_tenant(conn)


@pytest.fixture
def contact(conn, tenant_id):
    return insert_line_user(conn, tenant_id, display_name="Lin", attributes='{"plan": "pro"}')


def rule(conn, tenant_id, *actions, conditions=(), event="ordered", name="thank"):
    draft = RuleDraft(
        name=name, event=event, conditions=list(conditions), actions=list(actions), enabled=True
    )
    return make_rule(conn, tenant_id=tenant_id, draft=draft, now=server_now(conn))


def tell(conn, tenant_id, *, contact=None, name="ordered", key=None, **data):
    """Tell of an event as the API does."""
    event = NewEvent(tenant_id=tenant_id, name=name, line_user_id=contact, data=data, key=key)
    now = server_now(conn)
    taken = take_event(conn, event, clicks=CLICKS, waiting=WaitingLimit(), now=now)
    settle(conn, event, taken, clicks=CLICKS)
    return taken.event


def ends(bench):
    return [(row["status"], row["error"]) for row in bench.actions()]


def test_the_actions_of_a_rule_are_executed(bench, conn, tenant_id, contact):
    message = "$line_user.display_name: $event.sum ($trigger.name)"
    rule(conn, tenant_id, notify(message), notify("$event"))

    tell(conn, tenant_id, contact=contact, sum=5)
    bench.execute()

    assert sorted(bench.messages()) == ["Lin: 5 (thank)", '{"sum":5}']
    assert ends(bench) == [("done", None)] * 2


def test_conditions_that_are_judged_again_see_the_contact_as_it_is_then(
    bench, conn, tenant_id, contact
):
    conditions = [{"column": "line_user.plan", "op": "eq", "value": "pro"}]
    delay = {"seconds": 60, "reEvaluateConditions": True}
    once, again = notify("once") | {"delay": {"seconds": 60}}, notify("again") | {"delay": delay}
    rule(conn, tenant_id, once, again, conditions=conditions)

    tell(conn, tenant_id, contact=contact)
    conn.execute("""UPDATE line_user SET attributes = '{"plan": "free"}'""")
    bench.hurry()
    bench.execute()

    assert bench.messages() == ["once"]
    assert sorted(ends(bench), key=str) == [
        ("cancelled", "conditions no longer pass"),
        ("done", None),
    ]


def test_a_contact_that_is_deleted_cancels_what_was_scheduled(bench, conn, tenant_id, contact):
    rule(conn, tenant_id, notify("late") | {"delay": {"seconds": 60}})

    tell(conn, tenant_id, contact=contact)
    conn.execute("UPDATE line_user SET deleted_at = clock_timestamp()")
    bench.hurry()
    bench.execute()

    assert bench.messages() == []
    assert ends(bench) == [("cancelled", "subject no longer exists")]


@pytest.mark.parametrize("clicks", [False, True])
def test_an_action_that_waits_for_a_click_runs_on_it_and_else_what_is_for_expiry(
    bench, conn, tenant_id, clicks
):
    link = a_link(conn, tenant_id)
    late = [notify("nobody"), notify("later") | {"delay": {"seconds": 60}}]
    rule(conn, tenant_id, notify("clicked") | {"delay": {**WAIT, "on_expire": late}})

    tell(conn, tenant_id, link=link.token)
    bench.execute()
    assert bench.messages() == []
    if clicks:
        click(conn, link.token)
    for _ in range(3):
        bench.execute()
        bench.hurry()

    assert sorted(bench.messages()) == (["clicked"] if clicks else ["later", "nobody"])


def test_an_event_that_is_told_twice_under_its_key_does_things_once(bench, conn, tenant_id):
    nodes = [act(notify("from the workflow"))]
    make_workflow(conn, tenant_id=tenant_id, name="w", nodes=nodes, now=server_now(conn))
    rule(conn, tenant_id, notify("hi"), {"type": "start_workflow", "workflow": "w"})

    for _ in range(3):
        tell(conn, tenant_id, key="k")
        bench.execute()

    assert sorted(bench.messages()) == ["from the workflow", "hi"]


def test_workflows_that_start_each_other_through_events_of_their_own_are_cut(
    bench, conn, tenant_id
):
    starts = {"type": "start_workflow", "workflow": "b"}
    nodes = [act(notify("a")), act(starts | {"on_error": "continue"}), act(notify("end"))]
    workflow = make_workflow(
        conn, tenant_id=tenant_id, name="b", nodes=[act(notify("b"))], now=server_now(conn)
    )
    make_workflow(conn, tenant_id=tenant_id, name="a", nodes=nodes, now=server_now(conn))
    # Renamed behind the back of the check, so that the workflow starts itself.
    conn.execute("UPDATE workflow SET name = 'c' WHERE id = %s", [workflow.id])
    conn.execute("UPDATE workflow SET name = 'b' WHERE name = 'a'")
    rule(conn, tenant_id, starts)

    tell(conn, tenant_id)
    for _ in range(40):
        bench.execute()

    assert bench.messages().count("a") == 8
    errors = {row["error"] for row in bench.actions() if row["status"] == "failed"}
    assert len(errors) == 1
    assert "cut at depth 8" in errors.pop()


def test_the_example_of_the_documentation_does_what_it_says(bench, conn, tenant_id, contact):
    page = Path("docs/workflows.md").read_text("utf-8")
    bodies = {path: json.loads(body) for path, body in _EXAMPLE.findall(page)}
    workflow = make_workflow(
        conn, tenant_id=tenant_id, now=server_now(conn), **bodies["/v1/workflows"]
    )
    body = bodies["/v1/trigger-rules"]
    rule(conn, tenant_id, *body.pop("actions"), **body)
    event = bodies["/v1/events"]

    tell(conn, tenant_id, contact=contact, name=event["name"], **event["data"])
    for _ in range(8):
        bench.execute()
    [stands] = list_executions(conn, tenant_id, workflow.id, limit=9)
    assert (stands.status, stands.node_path) == ("waiting", "1")
    for _ in range(8):
        bench.hurry()
        bench.execute()

    [token] = conn.execute("SELECT token FROM tracking_link").fetchone()
    assert bench.messages() == [
        f"Thank you, Lin, for order {event['data']['order']}!",
        f"This goes well with it: {PUBLIC_URL}/t/{token}",
        f"Still there, for one more day: {PUBLIC_URL}/t/{token}",
    ]
    [stands] = list_executions(conn, tenant_id, workflow.id, limit=9)
    assert (stands.status, stands.node_path) == ("done", "4.then.0")


def test_a_wait_of_a_started_workflow_is_unlocked_by_a_click(bench, conn, tenant_id, contact):
    nodes = [act(notify("see $link.offer")), wait_for_click(clicked=[act(notify("$event.a"))])]
    make_workflow(conn, tenant_id=tenant_id, name="w", nodes=nodes, now=server_now(conn))
    rule(conn, tenant_id, {"type": "start_workflow", "workflow": "w", "context": {"a": "$event.b"}})

    tell(conn, tenant_id, contact=contact, b="thanks")
    for _ in range(3):
        bench.execute()
    click(conn, conn.execute("SELECT token FROM tracking_link").fetchone()[0])
    for _ in range(3):
        bench.execute()

    assert bench.messages()[1:] == ["thanks"]
