"""Actions of workflows that wait for a click, or judge their branches again (spec 3 §3 and §6)."""

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.queries.action_moves import bring_forward, cancel, rearm
from shared.queries.executions import get_execution
from tests.builders_db import LONG_AGO, insert_tenant
from tests.builders_delayed import insert_workflow
from tests.integration.worker.conftest import PUBLIC_URL
from tests.integration.worker.runs import notify
from tests.integration.worker.waits import (
    ClickedMeanwhile,
    a_link,
    act,
    click,
    delay,
    start,
    token_of,
    wait_for_click,
)

pytestmark = pytest.mark.usefixtures("nothing_broken")

PRO = [{"column": "line_user.plan", "op": "eq", "value": "pro"}]
NOT_CLICKED = "nobody clicked in time"
FAILS = "conditions no longer pass"


def waiting(message="clicked", *, on_error=None, **settings):
    """Return a node whose action runs on a click within an hour."""
    action = notify(message) | ({} if on_error is None else {"on_error": on_error})
    wait = {"mode": "waitForTracking", "expiresSeconds": 3600, **settings}
    return act(action | {"delay": wait})


def again(message):
    """Return a node whose action judges its branches again in an hour."""
    return act(notify(message) | {"delay": {"seconds": 3600, "reEvaluateConditions": True}})


def branch(*then, otherwise=()):
    return {"type": "branch", "when": PRO, "then": list(then), "else": list(otherwise)}


def steps(bench):
    """The steps of executions so far: where, and how they stand."""
    return [
        (action["workflow_node_path"], action["status"])
        for action in bench.actions()
        if action["execution_id"] is not None
    ]


def settle_down(bench, rounds=5):
    """Execute what is due until nothing is."""
    for _ in range(rounds):
        bench.execute()


def run_on(bench, rounds=6):
    """Execute, and make due what waits, until nothing happens any more."""
    for _ in range(rounds):
        bench.hurry()
        bench.execute()


def the_wait(bench):
    """The action that waits for a click."""
    [action] = [
        action
        for action in bench.actions()
        if action["mode"] == "waitForTracking" and action["action_type"] == "notify"
    ]
    return action


def told_of(conn, workflow, execution_id):
    found = get_execution(conn, workflow.tenant_id, workflow.id, execution_id)
    return found.status, found.error


def make_contact(conn, plan):
    conn.execute("UPDATE line_user SET attributes = %s", [Jsonb({"plan": plan})])


def test_on_a_click_the_action_runs_and_the_execution_goes_on_behind_it(bench, conn):
    nodes = [wait_for_click(), waiting("clicked at last: $link.offer"), act(notify("after"))]
    workflow, execution_id = start(conn, nodes)
    run_on(bench, rounds=1)
    between = (bench.messages(), told_of(conn, workflow, execution_id)[0])
    token = token_of(conn, the_wait(bench)["tracking_link_id"])

    click(conn, token)
    click(conn, token)
    settle_down(bench)

    assert between == ([], "waiting")
    assert bench.messages() == [f"clicked at last: {PUBLIC_URL}/t/{token}", "after"]
    assert steps(bench) == [("0", "done"), ("1", "done"), ("2", "done")]
    assert the_wait(bench)["branch"] == "clicked"
    assert told_of(conn, workflow, execution_id) == ("done", None)


def test_when_nobody_clicks_the_action_is_passed_over(bench, conn):
    start(conn, [wait_for_click(), waiting(), act(notify("after"))])

    run_on(bench)

    wait = the_wait(bench)
    assert bench.messages() == ["after"]
    assert (wait["status"], wait["error"], wait["branch"]) == ("cancelled", NOT_CLICKED, "expired")
    assert steps(bench) == [("0", "done"), ("1", "cancelled"), ("2", "done")]


def test_an_execution_whose_last_action_is_passed_over_is_done(bench, conn):
    workflow, execution_id = start(conn, [wait_for_click(), waiting()])

    run_on(bench)

    assert steps(bench) == [("0", "done"), ("1", "cancelled")]
    assert told_of(conn, workflow, execution_id) == ("done", None)


def test_an_execution_whose_last_action_is_cancelled_by_hand_is_cancelled(bench, conn):
    workflow, execution_id = start(conn, [wait_for_click(), waiting(), act(notify("after"))])
    run_on(bench, rounds=1)

    assert cancel(conn, workflow.tenant_id, the_wait(bench)["id"], now=server_now(conn))
    run_on(bench)

    assert told_of(conn, workflow, execution_id) == ("cancelled", "cancelled")
    assert bench.messages() == []


def test_what_runs_when_nobody_clicks_knows_what_the_workflow_knows(bench, conn):
    message = "still there, $line_user.display_name: $link.offer for $event.sum"
    late = notify("late") | {"delay": {"seconds": 3600}}
    nodes = [wait_for_click(), waiting(on_expire=[notify(message), late]), act(notify("after"))]
    workflow, execution_id = start(conn, nodes, context={"sum": 3}, display_name="Lin")
    run_on(bench, rounds=2)
    settle_down(bench)

    told = bench.messages()
    wait = the_wait(bench)
    token = token_of(conn, wait["tracking_link_id"])
    assert sorted(told) == ["after", f"still there, Lin: {PUBLIC_URL}/t/{token} for 3"]
    assert (wait["status"], wait["action_results"][0]["type"]) == ("done", "on_expire")
    assert steps(bench) == [("0", "done"), ("1", "done"), ("2", "done")]
    assert told_of(conn, workflow, execution_id) == ("done", None)
    apart = [action for action in bench.actions() if action["execution_id"] is None]
    assert [action["line_user_id"] for action in apart] == [wait["line_user_id"]] * 2
    run_on(bench)
    assert bench.messages() == [*told, "late"]


@pytest.mark.parametrize("settings", [{}, {"trackingLink": "$link.offer"}])
def test_a_click_before_the_action_is_there_lets_it_run_at_once(bench, conn, settings):
    nodes = [wait_for_click(not_clicked=[delay()]), waiting(**settings), act(notify("after"))]
    start(conn, nodes)
    [token] = conn.execute("SELECT token FROM tracking_link").fetchone()
    run_on(bench, rounds=1)  # the node's own wait is over, and nobody has clicked

    click(conn, token)
    bench.hurry()
    settle_down(bench)

    assert bench.messages() == ["clicked", "after"]
    assert (the_wait(bench)["branch"], the_wait(bench)["urgent"]) == ("clicked", True)
    assert [path for path, _ in steps(bench)] == ["0", "0.not_clicked.0", "1", "2"]


def test_a_link_that_is_left_out_is_that_of_the_nearest_wait(bench, conn):
    inner = wait_for_click(link="inner", not_clicked=[waiting()])
    start(conn, [wait_for_click(not_clicked=[inner])])

    run_on(bench, rounds=2)

    [name] = conn.execute(
        "SELECT name FROM tracking_link WHERE id = %s", [the_wait(bench)["tracking_link_id"]]
    ).fetchone()
    assert name == "inner"


@pytest.mark.parametrize("form", ["TOKEN", "https://links.example/t/TOKEN", "/t/TOKEN?a=b#c"])
def test_an_action_may_wait_for_any_link_of_the_tenant(bench, conn, form):
    tenant_id = insert_tenant(conn)
    link = a_link(conn, tenant_id)
    context = {"link": form.replace("TOKEN", link.token)}
    start(conn, [waiting(trackingLink="$event.link")], tenant_id=tenant_id, context=context)
    settle_down(bench)
    before = bench.messages()

    click(conn, link.token)
    settle_down(bench)

    assert (before, bench.messages()) == ([], ["clicked"])


@pytest.mark.parametrize("first", [[], [act(notify("first"))]], ids=["at the start", "behind"])
@pytest.mark.parametrize("on_error", [None, "continue"])
def test_an_action_whose_link_is_not_there_fails_and_says_so(bench, conn, first, on_error):
    foreign = a_link(conn, insert_tenant(conn)).token
    node = waiting(trackingLink="$event.link", on_error=on_error)
    nodes = [*first, node, act(notify("after"))]
    workflow, execution_id = start(conn, nodes, context={"link": foreign})

    settle_down(bench)

    failed = bench.actions()[len(first)]
    reason = "action 1 (notify): the tracking link to wait for does not exist"
    assert (failed["status"], failed["error"], failed["starts"]) == ("failed", reason, 1)
    assert bench.messages() == ["first"] * len(first) + ["after"] * (on_error is not None)
    status = ("failed", reason) if on_error is None else ("done", None)
    assert told_of(conn, workflow, execution_id) == status


@pytest.mark.parametrize("took", ["clicked", "expired"])
def test_an_action_that_waits_may_be_decided_by_hand(bench, conn, took):
    nodes = [wait_for_click(), waiting(on_expire=[notify("expired")]), act(notify("after"))]
    workflow, _ = start(conn, nodes)
    run_on(bench, rounds=1)

    now = server_now(conn)
    bring_forward(conn, workflow.tenant_id, the_wait(bench)["id"], branch=took, now=now)
    settle_down(bench)

    assert sorted(bench.messages()) == sorted([took, "after"])


@pytest.mark.parametrize("first", [[], [delay()]], ids=["at the start", "behind"])
def test_a_click_while_the_action_is_being_recorded_is_found_behind_it(
    make_bench, conn, other_conn, first
):
    bench = make_bench(clicks=ClickedMeanwhile(other_conn))
    tenant_id = insert_tenant(conn)
    link = a_link(conn, tenant_id)
    nodes = [*first, waiting(trackingLink="$event.link"), act(notify("after"))]
    insert_workflow(conn, tenant_id, nodes=nodes, name="w")
    starts = {"type": "start_workflow", "workflow": "w", "context": {"link": link.token}}
    bench.wait(starts, tenant_id=tenant_id)

    settle_down(bench, rounds=1)
    if first:
        bench.hurry()
    settle_down(bench)

    assert bench.messages() == ["clicked", "after"]


@pytest.mark.parametrize("plan", ["pro", "free"])
@pytest.mark.parametrize("stays", [True, False])
def test_branches_are_judged_again_when_the_action_is_due(bench, conn, plan, stays):
    nodes = [delay(), branch(again("pro"), otherwise=[again("free")]), act(notify("after"))]
    workflow, execution_id = start(conn, nodes)
    make_contact(conn, plan)
    run_on(bench, rounds=1)

    if not stays:
        make_contact(conn, "free" if plan == "pro" else "pro")
    run_on(bench)

    step = bench.actions()[1]
    held = plan == "pro"
    assert step["source_config"] == {"branches": [{"when": PRO, "held": held}]}
    assert bench.messages() == ([plan, "after"] if stays else [])
    assert step["error"] == (None if stays else FAILS)
    ended = ("done", None) if stays else ("cancelled", FAILS)
    assert told_of(conn, workflow, execution_id) == ended


def test_an_action_in_no_branch_has_none_to_judge_again(bench, conn):
    start(conn, [again("here"), act(notify("after"))])

    run_on(bench)

    assert bench.messages() == ["here", "after"]
    assert bench.actions()[0]["source_config"] == {"branches": []}


@pytest.mark.parametrize("stays", [True, False])
def test_what_runs_on_expiry_may_judge_the_branches_of_its_wait_again(bench, conn, stays):
    late = again("expired")["action"]
    node = waiting(on_expire=[late])
    start(
        conn, [wait_for_click(), branch(node), act(notify("after"))], attributes='{"plan": "pro"}'
    )
    run_on(bench, rounds=2)
    settle_down(bench)

    if not stays:
        make_contact(conn, "free")
    run_on(bench)

    assert bench.messages() == ["after", *(["expired"] if stays else [])]


@pytest.mark.parametrize(
    "asked",
    [
        b"SET status = ",
        b"FROM workflow_version",
        b"INSERT INTO scheduled_action",
        b"COMMIT",
    ],
)
@pytest.mark.parametrize("on_expire", [None, [notify("expired")]], ids=["alone", "replaced"])
def test_an_expired_action_ends_and_is_followed_in_one_transaction(
    make_bench, proxy, conn, asked, on_expire
):
    bench = make_bench(url=proxy.url)
    settings = {} if on_expire is None else {"on_expire": on_expire}
    start(conn, [wait_for_click(), waiting(**settings), act(notify("after"))])
    run_on(bench, rounds=1)
    bench.hurry()
    [held] = bench.claim()

    lost = proxy.lose_answer_to(asked)
    bench.executor.execute(held)
    bench.flush()
    assert lost.wait(30)
    whole = the_wait(bench)["status"] in ("done", "cancelled")
    assert len(bench.actions()) == 2 + whole * (1 + len(on_expire or ()))
    conn.execute(
        "UPDATE scheduled_action SET status = 'pending', leased_until = NULL, worker_id = NULL,"
        " next_attempt_at = %s, announce_at = %s WHERE status = 'processing'",
        [LONG_AGO, LONG_AGO],
    )
    run_on(bench)

    assert sorted(bench.messages()) == sorted(["after", *(["expired"] if on_expire else [])])
    assert [path for path, _ in steps(bench)] == ["0", "1", "2"]


def test_an_expired_action_that_cannot_be_followed_fails_until_it_is_retried(bench, conn):
    workflow, _ = start(conn, [wait_for_click(), waiting(), act(notify("after"))])
    run_on(bench, rounds=1)
    [nodes] = conn.execute("SELECT nodes FROM workflow_version").fetchone()
    conn.execute("""UPDATE workflow_version SET nodes = '[{"type": "gone"}, {}, {}]'""")
    run_on(bench, rounds=2)
    failed = the_wait(bench)

    conn.execute("UPDATE workflow_version SET nodes = %s", [Jsonb(nodes)])
    assert rearm(conn, workflow.tenant_id, failed["id"], now=server_now(conn))
    run_on(bench)

    assert failed["status"] == "failed"
    assert failed["error"].startswith("what follows could not be recorded: ")
    assert steps(bench) == [("0", "done"), ("1", "cancelled"), ("2", "done")]
    assert bench.messages() == ["after"]
