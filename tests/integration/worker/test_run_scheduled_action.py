"""Scheduled actions: executed, decided, judged again, called off (spec 3 §3 and §4)."""

import json
from datetime import timedelta
from uuid import uuid4

import pytest
from psycopg.types.json import Jsonb

from shared.db.clock import server_now
from shared.domain.definitions import definition_body, definition_hash
from shared.queries.action_moves import edit, rearm
from shared.usecases.announce import recover
from tests.builders_db import LONG_AGO, insert_records, insert_table, insert_tenant
from tests.builders_delayed import insert_line_user
from tests.integration.actions.receivers import a_receiver
from tests.integration.worker.runs import api_call, notify
from tests.integration.worker.waits import a_wait, click, token_of

pytestmark = pytest.mark.usefixtures("nothing_broken")

OK = (200, {}, b"")
BUSY = (503, {}, b"busy")
WRONG = (400, {}, b"no")
GONE = "subject no longer exists"


def state(action):
    return action["status"], action["error"]


def of_a_row(conn, *, data=None, when=(), trigger=None, **columns):
    """Return (table, record, columns) of a delayed action of a run on a row."""
    table = insert_table(conn)
    [record] = insert_records(conn, table, [data or {"c1": "broken lamp"}])
    frozen = {"id": "trg_000000000001", "name": "tell", "on": "record_created", "actions": []}
    body = definition_body(frozen | {"when": list(when)} | (trigger or {}), table.columns)
    digest = definition_hash(body)
    conn.execute(
        "INSERT INTO definition (tenant_id, hash, body) VALUES (%s, %s, %s)",
        [table.tenant_id, digest, Jsonb(body)],
    )
    run = {"id": 41, "scheduled_for": "2026-01-01T00:00:00Z"}
    own = {
        "tenant_id": table.tenant_id,
        "table_id": table.id,
        "record_id": record.id,
        "definition_hash": digest,
        "context": Jsonb({"run": run}),
        "run_id": 41,
    }
    return table, record, own | columns


def of_an_event(conn, *, event=None, attributes=None, **columns):
    """Return the columns of an action of a rule for a contact."""
    tenant_id = insert_tenant(conn)
    contact = insert_line_user(
        conn, tenant_id=tenant_id, display_name="Ann", attributes=Jsonb(attributes or {})
    )
    context = {"event": event or {}, "event_name": "purchase"}
    return {
        "tenant_id": tenant_id,
        "line_user_id": contact,
        "context": Jsonb(context),
        "event_id": 5,
    } | columns


def test_a_due_action_is_executed_and_leaves_a_receipt(bench):
    action_id = bench.wait(notify("hello"))

    bench.execute()

    action = bench.action(action_id)
    assert bench.messages() == ["hello"]
    assert state(action) == ("done", None)
    [receipt] = action["action_results"]
    assert (receipt["type"], receipt["ok"], receipt["attempts"]) == ("notify", True, 1)


def test_an_action_that_is_not_due_waits(bench, conn):
    later = server_now(conn) + timedelta(hours=1)
    action_id = bench.wait(notify(), next_attempt_at=later, announce_at=later)

    bench.execute()

    assert bench.action(action_id)["status"] == "pending"


def test_the_row_is_as_it_is_when_the_action_comes_due(bench, conn):
    _, record, columns = of_a_row(conn)
    bench.wait(
        notify("$row.title of run $run.id at $run.scheduled_for by $trigger.name"), **columns
    )
    conn.execute("""UPDATE record SET data = '{"c1": "mended lamp"}' WHERE id = %s""", [record.id])

    bench.execute()

    assert bench.messages() == ["mended lamp of run 41 at 2026-01-01T00:00:00Z by tell"]


def test_a_row_that_changes_while_the_action_waits_for_a_thread_is_read_again(bench, conn):
    bench.wait(notify("$row.title"), **of_a_row(conn)[2])
    [held] = bench.claim()
    conn.execute("""UPDATE record SET data = '{"c1": "mended lamp"}'""")
    held.since -= 5

    bench.executor.execute(held)
    bench.flush()

    assert bench.messages() == ["mended lamp"]


def test_an_action_that_was_taken_away_while_it_waited_for_a_thread_is_not_begun(bench, conn):
    action_id = bench.wait(notify())
    [held] = bench.claim()
    conn.execute("UPDATE scheduled_action SET lease_token = %s", [uuid4()])
    held.since -= 5

    bench.executor.execute(held)
    bench.flush()

    assert (bench.messages(), bench.action(action_id)["attempts"]) == ([], 1)


def test_an_action_writes_the_row_of_its_own_table(bench, conn):
    columns = of_a_row(conn)[2]
    update = {"type": "update_record", "target": "$row", "data": {"title": "late"}}
    bench.wait(update, **columns)

    bench.execute()

    assert conn.execute("SELECT data, version FROM record").fetchone() == ({"c1": "late"}, 2)


def test_tokens_tell_of_the_event_and_its_contact(bench, conn):
    columns = of_an_event(conn, event={"sum": 12}, attributes={"city": "Taipei"})
    bench.wait(notify("$event.sum for $line_user.display_name in $line_user.city"), **columns)

    bench.execute()

    assert bench.messages() == ["12 for Ann in Taipei"]


@pytest.mark.parametrize("external", [False, True])
@pytest.mark.parametrize("loss", ["contact", "record", "table"])
def test_an_action_whose_subject_is_gone_is_called_off(bench, conn, receiver, loss, external):
    config = api_call(receiver.url) if external else notify()
    columns = of_an_event(conn) if loss == "contact" else of_a_row(conn)[2]
    action_id = bench.wait(config, **columns)
    conn.execute(
        {
            "contact": "UPDATE line_user SET deleted_at = clock_timestamp()",
            "record": "UPDATE record SET deleted_at = clock_timestamp()",
            "table": "UPDATE custom_table SET trashed_at = clock_timestamp()",
        }[loss]
    )

    bench.execute()

    assert state(bench.action(action_id)) == ("cancelled", GONE)
    assert (bench.messages(), receiver.requests) == ([], [])


LATE = [{"column": "title", "op": "eq", "value": "broken lamp"}]


@pytest.mark.parametrize(
    ("title", "status"), [("broken lamp", "done"), ("mended lamp", "cancelled")]
)
def test_conditions_are_judged_again_on_the_row_as_it_is(bench, conn, title, status):
    *_, columns = of_a_row(conn, when=LATE, source_config=Jsonb({"when": LATE}))
    action_id = bench.wait(notify(), **columns)
    conn.execute("UPDATE record SET data = %s", [Jsonb({"c1": title})])

    bench.execute()

    action = bench.action(action_id)
    assert action["status"] == status
    assert action["error"] == (None if status == "done" else "conditions no longer pass")
    assert len(bench.messages()) == (status == "done")


def test_conditions_that_are_not_to_be_judged_again_are_not(bench, conn):
    _, _, columns = of_a_row(conn, when=LATE)
    action_id = bench.wait(notify(), **columns)
    conn.execute("UPDATE record SET data = %s", [Jsonb({"c1": "mended lamp"})])

    bench.execute()

    assert bench.action(action_id)["status"] == "done"


def test_a_cell_that_was_changed_counts_as_changed_for_ever(bench, conn):
    when = [{"column": "title", "op": "changed"}]
    action_id = bench.wait(
        notify(), **of_a_row(conn, when=when, source_config=Jsonb({"when": when}))[2]
    )

    bench.execute()

    assert bench.action(action_id)["status"] == "done"


@pytest.mark.parametrize(("city", "status"), [("Taipei", "done"), ("Kyoto", "cancelled")])
def test_conditions_of_a_rule_are_judged_again_on_the_contact_as_it_is(bench, conn, city, status):
    when = [
        {"column": "event.sum", "op": "gt", "value": 10},
        {"column": "line_user.city", "op": "eq", "value": "Taipei"},
    ]
    columns = of_an_event(
        conn,
        event={"sum": 12},
        attributes={"city": "Taipei"},
        source_config=Jsonb({"when": when}),
    )
    action_id = bench.wait(notify(), **columns)
    conn.execute("UPDATE line_user SET attributes = %s", [Jsonb({"city": city})])

    bench.execute()

    assert bench.action(action_id)["status"] == status


def test_a_passing_failure_waits_and_is_tried_three_times_more(bench, receiver):
    receiver.answers = [BUSY]
    action_id = bench.wait(api_call(receiver.url))

    bench.execute()
    waiting = bench.action(action_id)
    for _ in range(5):
        bench.hurry()
        bench.execute()

    assert waiting["status"] == "pending"
    assert waiting["next_attempt_at"] > waiting["updated_at"]
    action = bench.action(action_id)
    assert (action["status"], action["attempts"], action["retry_count"]) == ("failed", 4, 3)
    assert action["error"].startswith("action 1 (api_call): answered 503")
    assert len(receiver.requests) == 4
    keys = {request.headers["idempotency-key"] for request in receiver.requests}
    assert len(keys) == 1
    numbers = [request.headers["duebook-delivery"] for request in receiver.requests]
    assert numbers == ["1", "2", "3", "4"]


def test_a_failure_that_is_there_to_stay_ends_the_action(bench, receiver):
    receiver.answers = [WRONG]
    action_id = bench.wait(api_call(receiver.url))

    bench.execute()

    action = bench.action(action_id)
    assert (action["status"], action["attempts"]) == ("failed", 1)
    assert action["error"].startswith("action 1 (api_call): answered 400")
    assert action["action_results"][0]["ok"] is False


def test_a_retry_by_hand_executes_it_under_the_same_key(bench, conn, receiver):
    receiver.answers = [WRONG, OK]
    action_id = bench.wait(api_call(receiver.url))
    bench.execute()

    tenant_id = bench.action(action_id)["tenant_id"]
    assert rearm(conn, tenant_id, action_id, now=server_now(conn))
    bench.execute()

    assert state(bench.action(action_id)) == ("done", None)
    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == 1


def _change(conn, bench, action_id, config):
    tenant_id = bench.action(action_id)["tenant_id"]
    assert edit(
        conn, tenant_id, action_id, execute_at=None, action_config=config, now=server_now(conn)
    )
    conn.execute(
        "UPDATE scheduled_action SET next_attempt_at = %(past)s, announce_at = %(past)s",
        {"past": LONG_AGO},
    )


def test_a_call_that_was_edited_has_another_key_and_keeps_it(bench, conn, receiver):
    receiver.answers = [BUSY, WRONG, OK]
    action_id = bench.wait(api_call(receiver.url))
    bench.execute()
    _change(conn, bench, action_id, api_call(receiver.url, body={"sum": 2}))
    bench.execute()
    assert rearm(conn, bench.action(action_id)["tenant_id"], action_id, now=server_now(conn))

    bench.execute()

    assert state(bench.action(action_id)) == ("done", None)
    first, second, third = [request.headers["idempotency-key"] for request in receiver.requests]
    assert first != second == third


def test_every_edit_of_a_call_makes_another_key(bench, conn, receiver):
    receiver.answers = [BUSY, BUSY, OK]
    action_id = bench.wait(api_call(receiver.url))
    for sum in (1, 2):
        bench.execute()
        _change(conn, bench, action_id, api_call(receiver.url, body={"sum": sum}))
    bench.execute()

    assert len({request.headers["idempotency-key"] for request in receiver.requests}) == 3


@pytest.mark.parametrize(("changed", "calls"), [({"body": {}}, 1), ({}, 0)])
def test_of_an_edited_call_nothing_was_sent_before(bench, conn, receiver, changed, calls):
    action_id = bench.wait(api_call(receiver.url), open_action=0)
    _change(conn, bench, action_id, api_call(receiver.url, on_unknown="fail", **changed))

    bench.execute()

    action = bench.action(action_id)
    assert len(receiver.requests) == calls
    assert action["status"] == ("done" if calls else "failed")
    assert calls or "outcome is unknown" in action["error"]


def test_the_intent_is_committed_before_the_call(bench):
    seen = []
    with a_receiver() as watching:

        class Watching(list):
            def append(self, request):
                seen.append(bench.action(action_id)["open_action"])
                super().append(request)

        watching.requests = Watching()
        action_id = bench.wait(api_call(watching.url))
        bench.execute()

    assert seen == [0]
    assert bench.action(action_id)["open_action"] is None


@pytest.mark.parametrize(("on_unknown", "calls"), [("retry", 1), ("fail", 0)])
def test_a_call_that_may_have_been_sent_is_sent_again_unless_that_is_forbidden(
    bench, receiver, on_unknown, calls
):
    action_id = bench.wait(api_call(receiver.url, on_unknown=on_unknown), open_action=0)

    bench.execute()

    action = bench.action(action_id)
    assert len(receiver.requests) == calls
    assert action["status"] == ("done" if calls else "failed")
    assert calls or "outcome is unknown" in action["error"]


def test_an_action_that_this_release_does_not_have_fails(bench):
    action_id = bench.wait({"type": "gone"})

    bench.execute()

    assert state(bench.action(action_id)) == (
        "failed",
        "action 1 (gone): this release has no such action",
    )


def test_an_action_that_cannot_be_read_fails_and_nothing_else_does(bench, conn):
    deep = "[" * 3000 + "]" * 3000
    poisoned, healthy = bench.wait(notify()), bench.wait(notify())
    conn.execute(
        "UPDATE scheduled_action SET context = %s WHERE id = %s", [f'{{"a": {deep}}}', poisoned]
    )

    bench.execute()

    [[status, error]] = conn.execute(
        "SELECT status, error FROM scheduled_action WHERE id = %s", [poisoned]
    ).fetchall()
    assert status == "failed"
    assert error.startswith("the action cannot be read: ")
    healthy_status = conn.execute("SELECT status FROM scheduled_action WHERE id = %s", [healthy])
    assert healthy_status.fetchone() == ("done",)


@pytest.mark.parametrize("external", [False, True])
def test_a_fenced_out_worker_does_nothing(bench, conn, receiver, external):
    action_id = bench.wait(api_call(receiver.url) if external else notify())
    [held] = bench.claim()
    conn.execute("UPDATE scheduled_action SET lease_token = %s", [uuid4()])

    bench.executor.execute(held)
    bench.flush()

    assert (bench.messages(), receiver.requests) == ([], [])
    assert bench.action(action_id)["status"] == "processing"


def test_a_worker_that_may_not_begin_hands_back(bench):
    action_id = bench.wait(notify())
    [held] = bench.claim()
    held.until -= 295

    bench.executor.execute(held)
    bench.flush()

    action = bench.action(action_id)
    assert (action["status"], action["attempts"], action["starts"]) == ("pending", 0, 1)
    assert bench.messages() == []


def test_an_ok_that_comes_late_is_taken(bench, conn, receiver):
    action_id = bench.wait(api_call(receiver.url))
    [held] = bench.claim()

    class Swept(list):
        def append(self, request):
            super().append(request)
            conn.execute("UPDATE scheduled_action SET leased_until = %s", [LONG_AGO])
            recover(conn)

    receiver.requests = Swept()
    bench.executor.execute(held)
    bench.flush()

    assert state(bench.action(action_id)) == ("done", None)
    assert len(receiver.requests) == 1


def test_a_webhook_tells_what_came_due_and_for_whom(bench, conn, receiver):
    columns = of_an_event(conn, event={"sum": 12}, attributes={"city": "Taipei"})
    conn.execute(
        "INSERT INTO signing_key (tenant_id, secret, created_at) VALUES (%s, %s, %s)",
        [columns["tenant_id"], b"s" * 32, LONG_AGO],
    )
    action_id = bench.wait(
        {"type": "webhook", "url": receiver.url, "payload": "$event.sum"}, **columns
    )

    bench.execute()

    [request] = receiver.requests
    event = json.loads(request.body)
    assert (event["type"], event["timestamp"]) == ("action.due", "2020-01-01T00:00:00Z")
    data = event["data"]
    assert data["scheduled_action"] == {
        "id": action_id,
        "execute_at": "2020-01-01T00:00:00Z",
        "branch": None,
        "run_id": None,
        "workflow": None,
    }
    assert data["line_user"]["attributes"] == {"city": "Taipei"}
    assert data["event"] == {"id": 5, "name": "purchase", "data": {"sum": 12}}
    assert (data["record"], data["payload"]) == (None, 12)


# Waits


def test_a_wait_that_nobody_clicked_is_called_off(bench, conn):
    action_id = bench.wait(notify(), **a_wait(conn))

    bench.execute()

    action = bench.action(action_id)
    assert state(action) == ("cancelled", "nobody clicked in time")
    assert action["branch"] == "expired"
    assert bench.messages() == []


def test_an_expired_wait_runs_what_was_set_for_that_in_its_place(bench, conn):
    on_expire = [notify("nobody came"), notify("really"), notify("later")]
    on_expire[2]["delay"] = {"seconds": 3600}
    columns = of_an_event(conn, event={"sum": 1})
    wait = a_wait(conn, tenant_id=columns["tenant_id"], on_expire=Jsonb(on_expire))
    action_id = bench.wait(notify("thanks"), **columns | wait)

    bench.execute()
    bench.execute()

    assert state(bench.action(action_id)) == ("done", None)
    assert sorted(bench.messages()) == ["nobody came", "really"]
    children = bench.actions()[1:]
    assert sorted(child["status"] for child in children) == ["done", "done", "pending"]
    assert {child["line_user_id"] for child in children} == {columns["line_user_id"]}
    bench.hurry()
    bench.execute()
    assert sorted(bench.messages()) == ["later", "nobody came", "really"]


def test_a_click_in_time_wins_though_the_deadline_came_first(bench, conn):
    columns = a_wait(conn, on_expire=Jsonb([notify("nobody came")]))
    action_id = bench.wait(notify("thanks"), **columns)
    before = columns["expires_at"] - timedelta(microseconds=1)
    conn.execute(
        "INSERT INTO tracking_click (link_id, first_clicked_at) VALUES (%s, %s)",
        [columns["tracking_link_id"], before],
    )

    bench.execute()

    assert bench.messages() == ["thanks"]
    assert bench.action(action_id)["branch"] == "clicked"


def test_a_click_at_the_deadline_itself_is_too_late(bench, conn):
    columns = a_wait(conn, on_expire=Jsonb([notify("nobody came")]))
    bench.wait(notify("thanks"), **columns)
    conn.execute(
        "INSERT INTO tracking_click (link_id, first_clicked_at) VALUES (%s, %s)",
        [columns["tracking_link_id"], columns["expires_at"]],
    )

    bench.execute()
    bench.execute()

    assert bench.messages() == ["nobody came"]


def test_a_click_before_the_deadline_lets_the_action_run_at_once(bench, conn):
    columns = a_wait(conn, seconds=3600, on_expire=Jsonb([notify("nobody came")]))
    action_id = bench.wait(notify("thanks"), **columns)
    token = token_of(conn, columns["tracking_link_id"])

    bench.execute()
    before = bench.messages()
    click(conn, token)
    click(conn, token)
    bench.execute()

    assert (before, bench.messages()) == ([], ["thanks"])
    assert bench.action(action_id)["status"] == "done"


def test_a_clicked_external_action_is_called_once(bench, conn, receiver):
    columns = a_wait(conn, seconds=3600)
    bench.wait(api_call(receiver.url), **columns)

    click(conn, token_of(conn, columns["tracking_link_id"]))
    bench.execute()
    bench.execute()

    assert len(receiver.requests) == 1


def test_a_wait_that_is_claimed_before_its_deadline_waits_on_and_loses_no_attempt(bench, conn):
    columns = a_wait(conn, seconds=3600)
    action_id = bench.wait(
        notify(), **columns | {"next_attempt_at": LONG_AGO, "announce_at": LONG_AGO}
    )

    bench.execute()

    action = bench.action(action_id)
    assert (action["status"], action["branch"]) == ("pending", None)
    assert (action["attempts"], action["starts"]) == (0, 1)
    assert action["next_attempt_at"] > action["updated_at"]


@pytest.mark.parametrize("branch", ["clicked", "expired"])
def test_a_wait_whose_contact_is_gone_runs_no_branch(bench, conn, branch):
    columns = of_an_event(conn)
    wait = a_wait(conn, tenant_id=columns["tenant_id"], on_expire=Jsonb([notify("nobody")]))
    action_id = bench.wait(notify(), **columns | wait | {"branch": branch})
    conn.execute("UPDATE line_user SET deleted_at = clock_timestamp()")

    bench.execute()

    assert state(bench.action(action_id)) == ("cancelled", GONE)
    assert len(bench.actions()) == 1


@pytest.mark.parametrize("depth", [7, 8])
def test_a_chain_is_cut_at_its_depth(bench, conn, depth):
    trigger = {
        "id": "trg_0000000000aa",
        "on": "record_created",
        "enabled": True,
        "actions": [notify("again")],
    }
    table = insert_table(conn, triggers=[trigger])
    create = {"type": "create_record", "table_id": str(table.id), "data": {"title": "x"}}
    action_id = bench.wait(create, tenant_id=table.tenant_id, depth=depth)

    bench.execute()
    bench.execute()

    action = bench.action(action_id)
    assert action["status"] == ("failed" if depth == 8 else "done")
    assert depth == 7 or "a chain of triggers is cut at depth 8" in action["error"]
    assert bench.messages() == (["again"] if depth == 7 else [])
