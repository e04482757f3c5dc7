"""Actions of runs that carry a delay: recorded by the run, executed when due (spec 3 §3)."""

from datetime import timedelta

import pytest

from shared.db.clock import server_now
from tests.builders_db import insert_table
from tests.integration.worker.runs import api_call, notify
from tests.integration.worker.waits import ClickedMeanwhile, a_link, click

pytestmark = pytest.mark.usefixtures("nothing_broken")


@pytest.fixture
def table(conn):
    return insert_table(conn)


def later(config, **more):
    return config | {"delay": {"seconds": 3600, **more}}


def watching(link="$row.title", **more):
    return {"mode": "waitForTracking", "expiresSeconds": 3600, "trackingLink": link, **more}


def results(run):
    return [(each["type"], each["ok"]) for each in run["action_results"]]


def test_a_run_records_the_action_and_does_not_wait(bench, conn):
    before = server_now(conn)
    run_id = bench.insert(later(notify("later $row.title", on_error="continue")), notify("now"))

    bench.execute()

    run = bench.run(run_id)
    [action] = bench.actions()
    assert run["status"] == "done"
    assert results(run) == [("notify", True), ("notify", True)]
    assert run["action_results"][0]["scheduled_action_id"] == action["id"]
    assert bench.messages() == ["now"]
    assert action["action_config"] == notify("later $row.title", on_error="continue")
    told = ("mode", "expires_at", "source_config", "run_id", "record_id", "depth")
    assert [action[name] for name in told] == ["normal", None, None, run_id, run["record_id"], 0]
    [at] = conn.execute("SELECT execute_at FROM scheduled_action").fetchone()
    assert timedelta(0) <= at - before - timedelta(hours=1) < timedelta(seconds=30)


def test_it_runs_on_the_row_as_it_is_then(bench, conn):
    run_id = bench.insert(later(notify("$row.title of $run.id by $trigger.name")))
    bench.execute()
    conn.execute("""UPDATE record SET data = '{"c1": "mended"}'""")

    bench.hurry()
    bench.execute()

    assert bench.messages() == [f"mended of {run_id} by tell"]
    assert [action["status"] for action in bench.actions()] == ["done"]


def test_an_external_action_is_recorded_without_a_call(bench, receiver):
    run_id = bench.insert(later(api_call(receiver.url)))

    bench.execute()
    before = len(receiver.requests)
    bench.hurry()
    bench.execute()

    assert (before, len(receiver.requests)) == (0, 1)
    assert bench.run(run_id)["open_action"] is None


def test_it_outlives_the_run(bench, conn):
    bench.insert(later(notify("later")))
    bench.execute()
    conn.execute("DELETE FROM trigger_run")

    bench.hurry()
    bench.execute()

    assert bench.messages() == ["later"]


@pytest.mark.parametrize("asked", [b"INSERT INTO scheduled_action", b"SET status = ", b"COMMIT"])
def test_it_is_recorded_once_whatever_answer_is_lost(make_bench, proxy, asked):
    bench = make_bench(url=proxy.url)
    run_id = bench.insert(later(notify("later")))
    [held] = bench.claim()

    lost = proxy.lose_answer_to(asked)
    bench.executor.execute(held)
    bench.flush()
    assert lost.wait(30)
    bench.again(run_id)
    bench.execute()

    assert bench.run(run_id)["status"] == "done"
    assert len(bench.actions()) == 1


def test_a_worker_that_was_fenced_out_records_nothing(bench, conn):
    bench.insert(later(notify()))
    [held] = bench.claim()
    conn.execute("UPDATE trigger_run SET lease_token = gen_random_uuid()")

    bench.executor.execute(held)
    bench.flush()

    assert bench.actions() == []


def test_conditions_to_be_judged_again_are_those_that_were_frozen(bench):
    bench.insert(later(notify(), reEvaluateConditions=True))

    bench.execute()

    [action] = bench.actions()
    assert action["source_config"] == {"when": []}
    bench.hurry()
    bench.execute()
    assert bench.messages() == ["case: broken lamp"]


def test_a_wait_watches_the_link_until_its_deadline(bench, conn, table):
    link = a_link(conn, table.tenant_id)
    on_expire = [notify("nobody came")]
    config = notify("thanks") | {"delay": watching(on_expire=on_expire)}
    bench.insert(config, table=table, data={"c1": link.token})

    bench.execute()

    [action] = bench.actions()
    assert (action["mode"], action["branch"]) == ("waitForTracking", None)
    assert action["execute_at"] == action["expires_at"]
    assert (action["tracking_link_id"], action["on_expire"]) == (link.id, on_expire)
    click(conn, link.token)
    bench.execute()
    assert bench.messages() == ["thanks"]


def test_a_link_that_was_clicked_before_lets_the_action_run_at_once(bench, conn, table):
    link = a_link(conn, table.tenant_id)
    click(conn, link.token)
    bench.insert(notify("thanks") | {"delay": watching()}, table=table, data={"c1": link.token})

    bench.execute()
    bench.execute()

    assert bench.messages() == ["thanks"]
    assert bench.actions()[0]["branch"] == "clicked"


def test_a_click_between_the_look_and_the_commit_is_found_behind_it(
    make_bench, conn, other_conn, table
):
    link = a_link(conn, table.tenant_id)
    bench = make_bench(clicks=ClickedMeanwhile(other_conn))
    bench.insert(notify("thanks") | {"delay": watching()}, table=table, data={"c1": link.token})

    bench.execute()
    bench.execute()

    assert bench.messages() == ["thanks"]


@pytest.mark.parametrize("token", ["", "nothing", "x" * 32])
def test_a_link_that_is_not_there_fails_the_action(bench, token):
    run_id = bench.insert(notify() | {"delay": watching(f"{token}$row.title")}, data={"c1": ""})

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert run["error"] == "action 1 (notify): the tracking link to wait for does not exist"
    assert bench.actions() == []


def test_the_link_of_another_tenant_is_not_there(bench, conn):
    foreign = a_link(conn, insert_table(conn).tenant_id)
    run_id = bench.insert(notify() | {"delay": watching()}, data={"c1": foreign.token})

    bench.execute()

    assert bench.run(run_id)["status"] == "failed"
    assert bench.actions() == []


@pytest.mark.parametrize("own", [False, True])
def test_what_an_expired_wait_runs_judges_the_conditions_again_by_itself(bench, conn, table, own):
    link = a_link(conn, table.tenant_id)
    later = notify("nobody came") | {"delay": {"seconds": 60, "reEvaluateConditions": True}}
    delay = watching(on_expire=[later, notify("now")], reEvaluateConditions=own)
    when = [{"column": "amount", "op": "eq", "value": 1}]
    bench.insert(
        notify() | {"delay": delay}, table=table, data={"c1": link.token, "c3": 1}, when=when
    )
    bench.execute()
    wait_conditions = bench.actions()[0]["source_config"]
    amount = "UPDATE record SET data = jsonb_set(data, '{c3}', %s)"
    if not own:
        conn.execute(amount, ["2"])

    bench.hurry()
    bench.execute()
    conn.execute(amount, ["2"])
    bench.hurry()
    bench.execute()

    assert wait_conditions == {"when": when} | ({} if own else {"on_expiry_alone": True})
    children = {
        action["action_config"]["message"]: (action["status"], action["source_config"])
        for action in bench.actions()[1:]
    }
    assert children == {
        "nobody came": ("cancelled", {"when": when}),
        "now": ("done", None),
    }
    assert bench.messages() == ["now"]
