from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.sql import SQL, Identifier

from shared.db.clock import server_now
from shared.domain.runs import idempotency_key
from shared.observability import metrics
from shared.queries.commands import insert_command
from shared.queries.trigger_runs import rearm
from tests.builders_db import LONG_AGO, insert_table, row_of
from tests.integration.actions.receivers import a_receiver
from tests.integration.worker.runs import api_call, notify

OK = (200, {}, b"")
BUSY = (503, {}, b"busy")
WRONG = (400, {}, b"no")


def results(bench, run_id):
    return [(each["type"], each["ok"]) for each in bench.run(run_id)["action_results"]]


def test_a_run_executes_its_actions_in_order_and_is_done(bench):
    run_id = bench.insert(notify("first"), notify("then $row.title"))

    bench.execute()

    run = bench.run(run_id)
    assert (run["status"], run["error"]) == ("done", None)
    assert bench.messages() == ["first", "then broken lamp"]
    assert [receipt["attempts"] for receipt in run["action_results"]] == [1, 1]
    assert run["finished_at"] is not None


def test_a_run_of_a_trashed_table_fails_without_executing(bench, conn):
    table = insert_table(conn)
    run_id = bench.insert(notify(), table=table)
    conn.execute("UPDATE custom_table SET trashed_at = clock_timestamp() WHERE id = %s", [table.id])

    bench.execute()

    run = bench.run(run_id)
    assert (run["status"], run["error"]) == ("failed", "trigger config no longer exists")
    assert bench.messages() == []


def test_a_permanent_failure_stops_the_run_and_names_the_action(bench, receiver):
    receiver.answers = [WRONG]
    run_id = bench.insert(notify("before"), api_call(receiver.url), notify("after"))

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert run["error"].startswith("action 2 (api_call): answered 400")
    assert results(bench, run_id) == [("notify", True), ("api_call", False)]
    assert run["action_results"][1]["detail"].startswith("answered 400")
    assert bench.messages() == ["before"]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_an_error_tells_more_of_a_failure_than_its_receipt(bench, conn, on_error):
    table = insert_table(conn)
    schema = {"type": "object", "properties": {"to": {"type": "integer"}}}
    insert_command(
        conn,
        tenant_id=table.tenant_id,
        name="send",
        url="https://example.com",
        input_schema=schema,
        now=LONG_AGO,
    )
    failing = {"type": "invoke_command", "command": "send", "inputs": {"to": "$row.title"}}
    run_id = bench.insert(
        {**failing, "on_error": on_error}, notify(), table=table, data={"c1": "x" * 2000}
    )

    bench.execute()

    run = bench.run(run_id)
    told = f"input /to does not fit: '{'x' * 2000}"
    assert run["action_results"][0]["detail"] == told[:300]
    assert run["error"] == f"action 1 (invoke_command): {told}"[:1000]


def test_a_run_continues_past_a_failure_that_allows_it_and_ends_failed(bench, receiver):
    receiver.answers = [WRONG]
    run_id = bench.insert(api_call(receiver.url, on_error="continue"), notify("after"))

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert run["error"].startswith("action 1 (api_call)")
    assert results(bench, run_id) == [("api_call", False), ("notify", True)]
    assert len(receiver.requests) == 1


def test_a_transient_failure_waits_in_the_database_and_resumes_behind_ok_receipts(bench, receiver):
    receiver.answers = [BUSY, OK]
    run_id = bench.insert(notify("once"), api_call(receiver.url))

    bench.execute()
    waiting = bench.run(run_id)
    bench.again(run_id)
    bench.execute()

    assert waiting["status"] == "pending"
    assert waiting["next_attempt_at"] > waiting["updated_at"]
    assert waiting["action_results"][1]["ok"] is False
    run = bench.run(run_id)
    assert (run["status"], run["attempts"]) == ("done", 2)
    assert run["action_results"][1]["attempts"] == 2
    assert bench.messages() == ["once"]


def test_retries_end_after_four_executions(bench, receiver):
    receiver.answers = [BUSY]
    run_id = bench.insert(api_call(receiver.url))
    retries = metrics.RETRIES.labels(kind="trigger_run", type="api_call")._value
    before = retries.get()

    for _ in range(6):
        bench.execute()
        bench.again(run_id)

    run = bench.run(run_id)
    assert (run["status"], run["attempts"]) == ("failed", 4)
    assert len(receiver.requests) == 4
    assert retries.get() == before + 3


def test_a_spent_budget_lets_a_run_continue_where_it_may(bench, receiver):
    receiver.answers = [BUSY]
    run_id = bench.insert(api_call(receiver.url, on_error="continue"), notify("after"))

    for _ in range(4):
        bench.execute()
        bench.again(run_id)

    assert bench.run(run_id)["status"] == "failed"
    assert results(bench, run_id) == [("api_call", False), ("notify", True)]


def test_a_failure_continued_past_is_not_repeated_when_a_later_action_retries(bench, receiver):
    receiver.answers = [BUSY, OK]
    with a_receiver() as wrong:
        wrong.answers = [WRONG]
        run_id = bench.insert(
            api_call(wrong.url, on_error="continue"), api_call(receiver.url), notify("after")
        )

        bench.execute()
        bench.again(run_id)
        bench.execute()

        assert len(wrong.requests) == 1
    assert results(bench, run_id) == [("api_call", False), ("api_call", True), ("notify", True)]


def test_a_failure_continued_past_is_not_repeated_when_the_run_is_handed_back(bench, receiver):
    receiver.answers = [WRONG]
    run_id = bench.insert(api_call(receiver.url, on_error="continue"), notify("after"))
    [held] = bench.claim()

    bench.may_begin = lambda: not receiver.requests
    bench.executor.execute(held)
    bench.flush()
    bench.may_begin = lambda: True
    bench.execute()

    assert len(receiver.requests) == 1
    assert results(bench, run_id) == [("api_call", False), ("notify", True)]


def test_a_spent_budget_is_not_repeated_when_a_worker_is_lost_behind_it(bench, conn, receiver):
    receiver.answers = [BUSY]
    run_id = bench.insert(api_call(receiver.url, on_error="continue"), notify("after"))
    for _ in range(3):
        bench.execute()
        bench.again(run_id)
    [held] = bench.claim()

    bench.may_begin = lambda: len(receiver.requests) < 4
    bench.executor.execute(held)
    bench.flush()
    bench.may_begin = lambda: True
    bench.execute()

    assert len(receiver.requests) == 4
    assert results(bench, run_id) == [("api_call", False), ("notify", True)]


def test_a_retry_by_hand_executes_again_what_failed_and_nothing_else(bench, conn, receiver):
    receiver.answers = [WRONG, OK]
    table = insert_table(conn)
    run_id = bench.insert(
        notify("before"), api_call(receiver.url, on_error="continue"), notify("after"), table=table
    )
    bench.execute()

    assert rearm(conn, table, run_id, now=server_now(conn))
    bench.execute()

    assert bench.run(run_id)["status"] == "done"
    assert len(receiver.requests) == 2
    assert bench.messages() == ["before", "after"]


def test_every_attempt_carries_the_same_key_and_a_higher_delivery_number(bench, receiver):
    receiver.answers = [BUSY, OK]
    run_id = bench.insert(api_call(receiver.url))

    bench.execute()
    bench.again(run_id)
    bench.execute()

    headers = [request.headers for request in receiver.requests]
    assert headers[0]["idempotency-key"] == headers[1]["idempotency-key"]
    assert [each["duebook-delivery"] for each in headers] == ["1", "2"]


@pytest.mark.parametrize(
    ("kind", "on", "calls"),
    [("record_updated", "record_updated", 2), ("date_column_reached", "schedule", 1)],
)
def test_a_version_that_is_given_out_again_is_another_call(bench, conn, receiver, kind, on, calls):
    table = insert_table(conn)
    for seconds in (0, 1):
        run_id = bench.insert(
            api_call(receiver.url),
            table=table,
            on=on,
            kind=kind,
            identity="2",
            scheduled_for=LONG_AGO + timedelta(seconds=seconds),
        )
        conn.execute("UPDATE trigger_run SET record_id = 1 WHERE id = %s", [run_id])

    bench.execute()

    keys = [request.headers["idempotency-key"] for request in receiver.requests]
    assert (len(keys), len(set(keys))) == (2, calls)


def test_what_was_frozen_before_keys_had_the_instant_keeps_its_key(bench, conn, receiver):
    table = insert_table(conn)
    run_id = bench.insert(api_call(receiver.url), table=table)
    conn.execute("UPDATE definition SET body = body - 'keyed_by_write'")

    bench.execute()

    run = row_of(conn, "trigger_run", run_id)
    assert receiver.requests[0].headers["idempotency-key"] == idempotency_key(
        tenant_id=table.tenant_id,
        table_id=table.id,
        trigger_id=run["trigger_id"],
        record_id=run["record_id"],
        identity=run["identity"],
        written_at=None,
        position=0,
    )


def test_the_intent_is_committed_before_an_external_call_begins(bench, conn, receiver):
    seen = []
    with a_receiver() as watching:

        class Watching(list):
            def append(self, request):
                seen.append(bench.run(run_id)["open_action"])
                super().append(request)

        watching.requests = Watching()
        run_id = bench.insert(notify(), api_call(watching.url))
        bench.execute()

    assert seen == [1]
    assert bench.run(run_id)["open_action"] is None


def test_a_call_that_may_have_been_sent_is_sent_again_under_its_key(bench, receiver):
    run_id = bench.insert(api_call(receiver.url), open_action=0)

    bench.execute()

    assert len(receiver.requests) == 1
    assert bench.run(run_id)["status"] == "done"


def test_a_call_that_may_have_been_sent_is_not_sent_again_where_that_is_forbidden(bench, receiver):
    run_id = bench.insert(api_call(receiver.url, on_unknown="fail"), open_action=0)

    bench.execute()

    run = bench.run(run_id)
    assert receiver.requests == []
    assert run["status"] == "failed"
    assert "outcome is unknown" in run["error"]


def test_a_call_that_got_no_answer_is_not_sent_again_where_that_is_forbidden(bench):
    with a_receiver() as deaf:
        deaf.answers = [(200, {"Content-Length": "10"}, b"short")]
        run_id = bench.insert(api_call(deaf.url, on_unknown="fail"))
        bench.execute()
        bench.again(run_id)
        bench.execute()

        assert len(deaf.requests) == 1
    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert "outcome is unknown" in run["error"]


def test_a_fenced_out_worker_leaves_no_effect_and_no_receipt(bench, conn):
    run_id = bench.insert(notify())
    [held] = bench.claim()
    conn.execute("UPDATE trigger_run SET lease_token = %s WHERE id = %s", [uuid4(), run_id])

    bench.executor.execute(held)
    bench.flush()

    assert bench.messages() == []
    assert bench.run(run_id)["action_results"] == []
    assert bench.run(run_id)["status"] == "running"


def test_a_fenced_out_worker_makes_no_call(bench, conn, receiver):
    run_id = bench.insert(api_call(receiver.url))
    [held] = bench.claim()
    conn.execute("UPDATE trigger_run SET lease_token = %s WHERE id = %s", [uuid4(), run_id])

    bench.executor.execute(held)

    assert receiver.requests == []


def test_a_worker_that_fell_asleep_begins_nothing_with_too_little_lease_left(bench):
    run_id = bench.insert(notify())
    [held] = bench.claim()
    held.until -= 295

    bench.executor.execute(held)
    bench.flush()

    run = bench.run(run_id)
    assert (run["status"], run["attempts"], run["starts"]) == ("pending", 0, 1)
    assert bench.messages() == []


def test_a_worker_that_may_not_begin_hands_back_between_two_actions(bench, receiver):
    run_id = bench.insert(api_call(receiver.url), notify("after"))
    [held] = bench.claim()
    original = receiver.next_answer

    bench.may_begin = lambda: not receiver.requests
    bench.executor.execute(held)
    bench.flush()

    run = bench.run(run_id)
    assert original() == OK
    assert (run["status"], run["attempts"]) == ("pending", 0)
    assert results(bench, run_id) == [("api_call", True)]
    assert bench.messages() == []


def test_an_ok_that_comes_late_is_taken_while_nobody_claimed_the_run_since(bench, conn, receiver):
    run_id = bench.insert(api_call(receiver.url))
    [held] = bench.claim()

    class Swept(list):
        def append(self, request):
            super().append(request)
            conn.execute(
                "UPDATE trigger_run SET status = 'pending', worker_id = NULL, leased_until = NULL,"
                " next_attempt_at = %s, announce_at = %s WHERE id = %s",
                [LONG_AGO, LONG_AGO, run_id],
            )

    receiver.requests = Swept()
    bench.executor.execute(held)
    bench.flush()

    assert bench.run(run_id)["status"] == "done"


def test_an_action_that_this_release_does_not_have_fails_its_run_and_nothing_else(bench):
    broken = bench.insert(notify("before"), {"type": "gone"})
    healthy = bench.insert(notify())

    bench.execute()

    run = bench.run(broken)
    assert run["status"] == "failed"
    assert run["error"] == "action 2 (gone): this release has no such action"
    assert results(bench, broken) == [("notify", True), ("gone", False)]
    assert bench.run(healthy)["status"] == "done"


def test_a_run_that_crashes_keeps_its_receipts_and_tells_why(bench):
    run_id = bench.insert(notify("before"), {"kind": "an action without a type"})

    bench.execute()

    run = bench.run(run_id)
    assert run["status"] == "failed"
    assert results(bench, run_id) == [("notify", True)]


@pytest.mark.parametrize("column", ["snapshot", "action_results"])
def test_a_run_that_cannot_be_read_fails_with_the_reason_and_nothing_else_does(bench, conn, column):
    poisoned, healthy = bench.insert(notify()), bench.insert(notify())
    depth = 3000
    deep = "[" * depth + "]" * depth
    value = f'{{"c1": {deep}}}' if column == "snapshot" else f'[{{"ok": true, "deep": {deep}}}]'
    conn.execute(
        SQL("UPDATE trigger_run SET {} = %s WHERE id = %s").format(Identifier(column)),
        [value, poisoned],
    )

    bench.execute()

    status, error, stored = conn.execute(
        SQL("SELECT status, error, {}::text FROM trigger_run WHERE id = %s").format(
            Identifier(column)
        ),
        [poisoned],
    ).fetchone()
    assert status == "failed"
    assert error.startswith("the run cannot be read: ")
    assert len(stored) > 2 * depth
    assert bench.run(healthy)["status"] == "done"


def test_a_message_is_stored_once_though_the_gateway_is_told_again(make_bench, receiver):
    receiver.answers = [BUSY, OK]
    bench = make_bench(gateway_url=receiver.url)
    run_id = bench.insert(notify("hello"))

    bench.execute()
    bench.again(run_id)
    bench.execute()

    assert bench.messages() == ["hello"]
    assert len(receiver.requests) == 2
    assert bench.run(run_id)["action_results"][0]["gateway"] == {"ok": True, "status": 200}


def test_two_workers_never_execute_one_run_twice(make_bench, conn):
    first, second = make_bench(worker_id=1), make_bench(worker_id=2)
    for number in range(60):
        first.insert(notify(f"number {number}"))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda bench: [bench.execute() for _ in range(3)], [first, second]))

    assert len(first.messages()) == 60
    assert conn.execute("SELECT DISTINCT status, starts FROM trigger_run").fetchall() == [
        ("done", 1)
    ]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_what_an_action_reads_is_frozen(bench, conn, on_error):
    run_id = bench.insert(notify("$row.title", on_error=on_error))
    conn.execute("""UPDATE record SET data = '{"c1": "changed"}', version = 2""")

    bench.execute()

    assert bench.run(run_id)["status"] == "done"
    assert bench.messages() == ["broken lamp"]
