"""Workflows: one step after the other, each once, whatever happens in between (spec 3 §6)."""

from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.lifecycle import wait_until
from shared.queries.action_moves import rearm
from shared.queries.executions import get_execution
from shared.queries.workflows import delete_workflow, update_workflow
from tests.builders_db import LONG_AGO
from tests.integration.worker.conftest import PUBLIC_URL
from tests.integration.worker.runs import api_call, notify
from tests.integration.worker.waits import (
    ClickedMeanwhile,
    act,
    click,
    delay,
    start,
    token_of,
    wait_for_click,
)

pytestmark = pytest.mark.usefixtures("nothing_broken")

OK = (200, {}, b"")
BUSY = (503, {}, b"busy")
WRONG = (400, {}, b"no")


def steps(bench):
    """The steps so far: where, of what type, and how they stand."""
    return [
        (step["workflow_node_path"], step["action_type"], step["status"])
        for step in bench.actions()
    ]


def run_on(bench, *, rounds=8):
    """Execute, and make due what waits, until nothing happens any more."""
    for _ in range(rounds):
        bench.hurry()
        bench.execute()


def status_of(conn, workflow, execution_id):
    found = get_execution(conn, workflow.tenant_id, workflow.id, execution_id)
    return found.status, found.node_path


def test_steps_follow_one_another_and_each_runs_once(bench, conn):
    nodes = [act(notify("first $event.sum")), delay(), act(notify("to $line_user.id"))]
    workflow, execution_id = start(conn, nodes, context={"sum": 3})

    bench.execute()
    first = steps(bench)
    bench.execute()
    waiting = steps(bench)
    run_on(bench)

    assert first == [("0", "notify", "done"), ("1", "delay", "pending")]
    assert waiting == first
    assert [status for *_, status in steps(bench)] == ["done"] * 3
    assert bench.messages() == ["first 3", f"to {bench.actions()[0]['line_user_id']}"]
    assert status_of(conn, workflow, execution_id) == ("done", "2")


def test_a_delay_counts_from_the_end_of_the_step_before_it(bench, conn):
    start(conn, [act(notify()), delay(600)])
    before = server_now(conn)

    bench.execute()

    [execute_at] = conn.execute(
        "SELECT execute_at FROM scheduled_action WHERE action_type = 'delay'"
    ).fetchone()
    assert timedelta(0) <= execute_at - before - timedelta(seconds=600) < timedelta(seconds=30)


def test_an_action_of_a_workflow_may_be_delayed_itself(bench, conn):
    start(conn, [act(notify("later") | {"delay": {"seconds": 60}}), act(notify("after"))])

    bench.execute()
    before = bench.messages()
    run_on(bench)

    assert before == []
    assert bench.messages() == ["later", "after"]


@pytest.mark.parametrize("clicks", [False, True])
def test_a_wait_takes_one_branch_and_goes_on_behind_it(bench, conn, clicks):
    nodes = [
        act(notify("see $link.offer")),
        wait_for_click(clicked=[act(notify("thanks"))], not_clicked=[act(notify("no?"))]),
        act(notify("end")),
    ]
    start(conn, nodes)
    bench.execute()
    [step] = [step for step in bench.actions() if step["action_type"] == "wait_for_tracking"]
    token = token_of(conn, step["tracking_link_id"])

    if clicks:
        click(conn, token)
        click(conn, token)
        for _ in range(4):
            bench.execute()
    else:
        run_on(bench)
        click(conn, token)
        run_on(bench, rounds=2)

    assert bench.messages() == [
        f"see {PUBLIC_URL}/t/{token}",
        "thanks" if clicks else "no?",
        "end",
    ]
    branch = "clicked" if clicks else "not_clicked"
    assert [path for path, *_ in steps(bench)] == ["0", "1", f"1.{branch}.0", "2"]
    wait = bench.action(step["id"])
    assert wait["branch"] == ("clicked" if clicks else "expired")
    assert wait["action_results"][0]["branch"] == wait["branch"]


def test_a_click_that_comes_before_the_wait_is_there_is_not_lost(bench, conn):
    nodes = [act(notify("see")), delay(), wait_for_click(clicked=[act(notify("thanks"))])]
    start(conn, nodes)
    [token] = conn.execute("SELECT token FROM tracking_link").fetchone()

    bench.execute()
    click(conn, token)
    bench.hurry()
    for _ in range(4):
        bench.execute()

    assert bench.messages() == ["see", "thanks"]


def test_a_click_while_the_wait_is_being_recorded_is_found_behind_it(make_bench, conn, other_conn):
    bench = make_bench(clicks=ClickedMeanwhile(other_conn))
    start(conn, [delay(), wait_for_click(clicked=[act(notify("thanks"))])])
    bench.hurry()

    for _ in range(3):
        bench.execute()

    assert bench.messages() == ["thanks"]


def test_branches_are_judged_on_the_contact_as_it_is_when_the_step_ends(bench, conn):
    when = [{"column": "line_user.city", "op": "eq", "value": "Taipei"}]
    nodes = [
        delay(),
        {"type": "branch", "when": when, "then": [act(notify("here"))], "else": [{"type": "stop"}]},
        act(notify("end")),
    ]
    start(conn, nodes)
    conn.execute("""UPDATE line_user SET attributes = '{"city": "Taipei"}'""")

    run_on(bench)

    assert bench.messages() == ["here", "end"]


def test_an_execution_ends_on_the_version_it_began_with(bench, conn):
    workflow, _ = start(conn, [delay(), act(notify("old"))])
    workflow.nodes[1] = act(notify("new"))
    update_workflow(conn, workflow, now=server_now(conn))
    delete_workflow(conn, workflow.tenant_id, workflow.id, now=server_now(conn))

    run_on(bench)

    assert bench.messages() == ["old"]


def test_an_execution_whose_contact_is_deleted_ends_there(bench, conn):
    workflow, execution_id = start(conn, [act(notify("one")), delay(), act(notify("two"))])
    bench.execute()
    conn.execute("UPDATE line_user SET deleted_at = clock_timestamp()")

    run_on(bench)

    assert bench.messages() == ["one"]
    assert status_of(conn, workflow, execution_id) == ("cancelled", "1")
    assert bench.actions()[1]["error"] == "subject no longer exists"


def test_an_execution_without_a_contact_runs(bench, conn):
    start(conn, [act(notify("to [$line_user.display_name]"))], with_contact=False)

    bench.execute()

    assert bench.messages() == ["to []"]


def test_a_step_that_fails_ends_the_execution_until_it_is_retried(bench, conn, receiver):
    receiver.answers = [WRONG, OK]
    workflow, execution_id = start(conn, [act(api_call(receiver.url)), act(notify("after"))])
    run_on(bench)
    failed = status_of(conn, workflow, execution_id)

    [step] = bench.actions()
    assert rearm(conn, workflow.tenant_id, step["id"], now=server_now(conn))
    run_on(bench)

    assert failed == ("failed", "0")
    assert bench.messages() == ["after"]
    assert status_of(conn, workflow, execution_id) == ("done", "1")


def test_a_step_that_may_fail_lets_the_execution_go_on(bench, conn, receiver):
    receiver.answers = [WRONG, OK]
    nodes = [act(api_call(receiver.url, on_error="continue")), act(notify("after"))]
    workflow, _ = start(conn, nodes)
    run_on(bench)
    [first, _] = bench.actions()
    before = bench.messages()

    assert rearm(conn, workflow.tenant_id, first["id"], now=server_now(conn))
    run_on(bench)

    assert first["status"] == "failed"
    assert before == bench.messages() == ["after"]
    assert [status for *_, status in steps(bench)] == ["done", "done"]


def test_a_step_that_was_passed_over_leads_no_second_way_when_it_is_retried(bench, conn, receiver):
    receiver.answers = [WRONG, OK]
    ways = {
        "type": "branch",
        "when": [{"column": "line_user.plan", "op": "eq", "value": "pro"}],
        "then": [act(notify("pro"))],
        "else": [act(notify("free"))],
    }
    workflow, _ = start(conn, [act(api_call(receiver.url, on_error="continue")), ways])
    run_on(bench)
    conn.execute("""UPDATE line_user SET attributes = '{"plan": "pro"}'""")

    assert rearm(conn, workflow.tenant_id, bench.actions()[0]["id"], now=server_now(conn))
    run_on(bench)

    assert bench.messages() == ["free"]
    assert [step[::2] for step in steps(bench)] == [("0", "done"), ("1.else.0", "done")]


def test_a_passing_failure_repeats_the_step_alone(bench, conn, receiver):
    receiver.answers = [BUSY, OK]
    start(conn, [act(notify("before")), act(api_call(receiver.url)), act(notify("after"))])

    run_on(bench)

    assert bench.messages() == ["before", "after"]
    assert len(receiver.requests) == 2
    keys = {request.headers["idempotency-key"] for request in receiver.requests}
    assert len(keys) == 1


def test_a_call_that_may_have_been_sent_is_not_repeated_where_that_is_forbidden(
    bench, conn, receiver
):
    start(conn, [act(api_call(receiver.url, on_unknown="fail")), act(notify("after"))])
    conn.execute("UPDATE scheduled_action SET open_action = 0")

    run_on(bench)

    assert (receiver.requests, bench.messages()) == ([], [])
    assert [status for *_, status in steps(bench)] == ["failed"]


@pytest.mark.parametrize("kind", ["internal", "external", "delay"])
def test_a_step_that_cannot_be_followed_fails_and_is_not_repeated(bench, conn, receiver, kind):
    first = {
        "internal": act(notify("once")),
        "external": act(api_call(receiver.url)),
        "delay": delay(),
    }[kind]
    start(conn, [first, act(notify("after"))])
    nodes = conn.execute("SELECT nodes FROM workflow_version").fetchone()
    conn.execute("""UPDATE workflow_version SET nodes = '[{"type": "gone"}, {}]'""")

    run_on(bench, rounds=3)

    [step] = bench.actions()
    assert (step["status"], step["starts"], step["worker_losses"]) == ("failed", 1, 0)
    assert step["error"]
    conn.execute("UPDATE workflow_version SET nodes = %s", [Jsonb(nodes[0])])
    assert rearm(conn, UUID(step["tenant_id"]), step["id"], now=server_now(conn))
    run_on(bench, rounds=3)
    assert bench.messages() == [*(["once"] if kind == "internal" else []), "after"]
    assert len(receiver.requests) == (kind == "external")


@pytest.mark.parametrize("kind", ["internal", "external", "delay"])
def test_who_was_fenced_out_leads_no_execution_on(bench, conn, receiver, kind):
    first = {
        "internal": act(notify("once")),
        "external": act(api_call(receiver.url)),
        "delay": delay(),
    }[kind]
    start(conn, [first, act(notify("after"))])
    bench.hurry()
    [held] = bench.claim()
    conn.execute("UPDATE scheduled_action SET lease_token = %s", [uuid4()])

    bench.executor.execute(held)
    bench.flush()

    assert [status for *_, status in steps(bench)] == ["processing"]
    assert (bench.messages(), receiver.requests) == ([], [])


def test_two_holders_of_a_step_lead_the_execution_on_once(make_bench, conn, receiver):
    first, second = make_bench(worker_id=1), make_bench(worker_id=2)
    start(conn, [act(api_call(receiver.url)), act(notify("after"))])
    [slow] = first.claim()

    class Taken(list):
        """While the slow worker's call is under way, another one has the step and ends it."""

        def append(self, request):
            super().append(request)
            if len(self) == 1:
                conn.execute(
                    "UPDATE scheduled_action SET status = 'pending', leased_until = NULL,"
                    " worker_id = NULL, next_attempt_at = %s, announce_at = %s",
                    [LONG_AGO, LONG_AGO],
                )
                second.execute()

    receiver.requests = Taken()
    first.executor.execute(slow)
    first.flush()
    run_on(second)

    assert len(receiver.requests) == 2
    assert first.messages() == ["after"]
    assert [path for path, *_ in steps(first)] == ["0", "1"]


def test_a_worker_that_drains_hands_the_step_back(bench, conn):
    start(conn, [act(notify("one")), act(notify("two"))])
    [held] = bench.claim()

    bench.may_begin = lambda: False
    bench.executor.execute(held)
    bench.flush()
    handed_back = bench.actions()[0]
    bench.may_begin = lambda: True
    run_on(bench)

    assert (handed_back["status"], handed_back["attempts"]) == ("pending", 0)
    assert bench.messages() == ["one", "two"]


@pytest.fixture
def far_bench(make_bench, proxy):
    """A worker whose every answer can be lost."""
    return make_bench(url=proxy.url)


# What is asked last before the session is cut; the first execution of a statement sends its text.
INTERNAL = [
    b"INSERT INTO chat_message",
    b"SET status = ",
    b"INSERT INTO scheduled_action",
    b"COMMIT",
]
EXTERNAL = [b"SET open_action", b"SET status = ", b"INSERT INTO scheduled_action", b"COMMIT"]
WAITING = [
    b"FROM workflow_version",
    b"FROM tracking_link",
    b"INSERT INTO scheduled_action",
    b"COMMIT",
]


def retry(bench):
    """Take back what a lost answer left behind, and go on to the end."""
    bench.conn.execute(
        "UPDATE scheduled_action SET status = 'pending', leased_until = NULL, worker_id = NULL,"
        " next_attempt_at = %s, announce_at = %s WHERE status = 'processing'",
        [LONG_AGO, LONG_AGO],
    )
    run_on(bench)


@pytest.mark.parametrize("asked", INTERNAL)
def test_an_internal_step_is_whole_or_not_at_all(far_bench, proxy, conn, asked):
    start(conn, [act(notify("one")), act(notify("two"))])
    [held] = far_bench.claim()

    lost = proxy.lose_answer_to(asked)
    far_bench.executor.execute(held)
    far_bench.flush()
    assert lost.wait(30)
    between = (far_bench.messages(), len(steps(far_bench)))
    retry(far_bench)

    assert between == ((["one"], 2) if asked == b"COMMIT" else ([], 1))
    assert far_bench.messages() == ["one", "two"]
    assert [status for *_, status in steps(far_bench)] == ["done", "done"]


@pytest.mark.parametrize("asked", EXTERNAL)
def test_an_external_step_ends_and_is_followed_in_one_transaction(
    far_bench, proxy, conn, receiver, asked
):
    start(conn, [act(api_call(receiver.url)), act(notify("after"))])
    [held] = far_bench.claim()

    lost = proxy.lose_answer_to(asked)
    far_bench.executor.execute(held)
    far_bench.flush()
    assert lost.wait(30)
    assert len(steps(far_bench)) == (1 if steps(far_bench)[0][2] != "done" else 2)
    retry(far_bench)

    assert far_bench.messages() == ["after"]
    assert [status for *_, status in steps(far_bench)] == ["done", "done"]
    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == 1


@pytest.mark.parametrize("asked", WAITING)
def test_a_wait_follows_once_and_is_found_by_its_click(far_bench, proxy, conn, asked):
    start(conn, [act(notify("see")), wait_for_click(clicked=[act(notify("thanks"))])])
    [held] = far_bench.claim()

    lost = proxy.lose_answer_to(asked)
    far_bench.executor.execute(held)
    far_bench.flush()
    assert lost.wait(30)
    [token] = conn.execute("SELECT token FROM tracking_link").fetchone()
    conn.execute(
        "UPDATE scheduled_action SET next_attempt_at = clock_timestamp(),"
        " announce_at = clock_timestamp() WHERE status = 'pending' AND mode = 'normal'"
    )
    far_bench.execute()
    click(conn, token)
    for _ in range(3):
        far_bench.execute()

    assert far_bench.messages() == ["see", "thanks"]


def test_a_step_whose_row_is_locked_is_written_when_it_is_free(bench, conn, other_conn):
    start(conn, [act(notify("one")), act(notify("two"))])
    [held] = bench.claim()

    with other_conn.transaction():
        other_conn.execute("SELECT FROM scheduled_action FOR UPDATE")
        bench.executor.execute(held)
    bench.flush()

    assert wait_until(lambda: bench.actions()[0]["status"] == "pending", seconds=30)
    run_on(bench)
    assert bench.messages() == ["one", "two"]
