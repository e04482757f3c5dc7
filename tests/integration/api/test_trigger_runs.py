import pytest

from tests.integration.api.callers import new_table, problem

WEBHOOK = {"type": "webhook", "url": "https://example.com/hook"}
ON_CREATE = {"on": "record_created", "actions": [WEBHOOK]}
INTERVAL = {
    "on": "schedule",
    "schedule": {"type": "interval", "every_seconds": 3600},
    "actions": [WEBHOOK],
}
FAIL = """
    UPDATE trigger_run
    SET status = 'failed', error = 'action 1 (webhook): refused', finished_at = clock_timestamp(),
        announce_at = NULL, next_attempt_at = NULL, attempts = 4, starts = 4
    WHERE id = %s
"""
HOLD = """
    UPDATE trigger_run
    SET status = 'running', announce_at = NULL, next_attempt_at = NULL, worker_id = 1,
        leased_until = clock_timestamp() + interval '300 s',
        updated_at = clock_timestamp() - %s::interval
    WHERE id = %s
"""


def fire(who, table, count):
    """Create records whose trigger makes a run each; return the runs, the newest first."""
    who.put(f"{table}/triggers", json={"triggers": [ON_CREATE]})
    for number in range(count):
        who.post(f"{table}/records", json={"data": {"amount": number}})
    return who.get(f"{table}/trigger-runs").json["items"]


def hold(conn, run, *, seconds_ago=0):
    conn.execute(HOLD, [f"{seconds_ago} s", run["id"]])


def test_runs_are_listed_the_newest_first_with_cells_by_name(author, authored):
    runs = fire(author, authored, 3)

    assert [run["snapshot"]["amount"] for run in runs] == [2, 1, 0]
    assert {run["kind"] for run in runs} == {"record_created"}
    assert runs[0]["identity"] == "record_created:1"
    assert runs[0]["window_key"] is None
    assert (runs[0]["status"], runs[0]["action_results"], runs[0]["error"]) == ("pending", [], None)
    assert author.get(f"{authored}/trigger-runs/{runs[0]['id']}").json == runs[0]


def test_the_snapshot_of_a_run_has_the_column_names_of_its_time(author, authored):
    run = fire(author, authored, 1)[0]
    columns = author.get(authored).json["columns"]
    author.patch(authored, json={"columns": [{**columns[0], "name": "other"}]})

    assert author.get(f"{authored}/trigger-runs/{run['id']}").json["snapshot"] == run["snapshot"]


def test_runs_are_listed_in_pages(author, authored):
    runs = fire(author, authored, 5)

    first = author.get(f"{authored}/trigger-runs?limit=2").json
    second = author.get(f"{authored}/trigger-runs?limit=3&cursor={first['next_cursor']}").json

    assert first["items"] + second["items"] == runs
    assert second["next_cursor"] is None


def test_a_list_has_the_runs_of_its_filter(author, authored, conn):
    runs = fire(author, authored, 4)
    conn.execute(FAIL, [runs[0]["id"]])
    hold(conn, runs[1], seconds_ago=301)
    hold(conn, runs[2])

    def listed(**query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        found = author.get(f"{authored}/trigger-runs?{text}").json["items"]
        return [runs.index(next(run for run in runs if run["id"] == one["id"])) for one in found]

    assert listed(status="failed") == [0]
    assert listed(status="running") == [1, 2]
    assert listed(status="pending") == [3]
    assert listed(status="done") == []
    assert listed(status="stuck") == [0, 1]
    assert listed(record_id=runs[2]["record_id"]) == [2]
    assert listed(trigger_id=runs[0]["trigger_id"]) == [0, 1, 2, 3]
    assert listed(trigger_id="trg_000000000000") == []
    assert listed(**{"from": runs[1]["created_at"]}) == [0, 1]
    assert listed(to=runs[1]["created_at"]) == [2, 3]


@pytest.mark.parametrize(
    "query",
    [
        "status=lost",
        "record_id=0",
        "record_id=x",
        "from=yesterday",
        "to=2026-01-01",
        "trigger_id=" + "x" * 17,
    ],
)
def test_a_filter_that_is_not_understood_is_refused(query, author, authored):
    assert problem(author.get(f"{authored}/trigger-runs?{query}"))[0] == 400


def test_a_failed_run_is_retried_with_a_fresh_budget(author, authored, conn):
    run = fire(author, authored, 1)[0]
    conn.execute(FAIL, [run["id"]])

    retried = author.post(f"{authored}/trigger-runs/{run['id']}/retry")

    assert retried.status_code == 200
    assert (retried.json["status"], retried.json["attempts"], retried.json["error"]) == (
        "pending",
        0,
        None,
    )
    assert retried.json["identity"] == run["identity"]


def test_a_stale_run_may_be_retried(author, authored, conn):
    run = fire(author, authored, 1)[0]
    hold(conn, run, seconds_ago=301)

    assert author.post(f"{authored}/trigger-runs/{run['id']}/retry").json["status"] == "pending"


@pytest.mark.parametrize("status", ["running", "done"])
def test_a_live_or_done_run_may_not_be_retried(status, author, authored, conn):
    run = fire(author, authored, 1)[0]
    hold(conn, run)
    if status == "done":
        conn.execute(
            "UPDATE trigger_run SET status = 'done', finished_at = clock_timestamp(),"
            " worker_id = NULL, leased_until = NULL"
        )

    answer = author.post(f"{authored}/trigger-runs/{run['id']}/retry")

    assert problem(answer)[0] == 409
    assert answer.json["detail"] == (
        f"run is {status}; only failed/pending (or stale-running) runs can be retried"
    )


def test_a_clock_run_is_not_retried_beside_another_active_one(author, authored, admin, conn):
    author.put(f"{authored}/triggers", json={"triggers": [INTERVAL]})
    tick = "/root/custom-tables/run-due-triggers"
    admin.post(tick)
    first = author.get(f"{authored}/trigger-runs").json["items"][0]
    conn.execute(FAIL, [first["id"]])
    conn.execute(
        "UPDATE trigger_state"
        " SET anchor_at = anchor_at - interval '30 minutes', last_window_at = NULL"
    )
    assert admin.post(tick).json["runs_created"] == 1

    answer = author.post(f"{authored}/trigger-runs/{first['id']}/retry")

    assert problem(answer)[:2] == (409, "trigger_has_active_run")


def test_all_runs_of_a_filter_are_retried(author, authored, conn):
    runs = fire(author, authored, 4)
    for run in runs[:3]:
        conn.execute(FAIL, [run["id"]])

    answer = author.post(
        f"{authored}/trigger-runs/retry",
        json={"status": "failed", "record_id": runs[0]["record_id"]},
    )
    rest = author.post(f"{authored}/trigger-runs/retry", json={})

    assert answer.json["retried"] == 1
    assert rest.json["retried"] == 2
    assert {run["status"] for run in author.get(f"{authored}/trigger-runs").json["items"]} == {
        "pending"
    }


def test_a_pending_run_is_cancelled_and_then_retried_or_deleted(author, authored):
    run = fire(author, authored, 1)[0]
    path = f"{authored}/trigger-runs/{run['id']}"

    early = author.delete(path)
    cancelled = author.post(f"{path}/cancel")
    again = author.post(f"{path}/cancel")
    deleted = author.delete(path)

    assert problem(early)[0] == 409
    assert (cancelled.json["status"], cancelled.json["error"]) == ("failed", "cancelled")
    assert problem(again)[0] == 409
    assert deleted.status_code == 204
    assert problem(author.get(path))[:2] == (404, "run_not_found")


def cancel_all(who, table, **filter):
    return who.post(f"{table}/trigger-runs/cancel", json=filter)


def pending_ids(who, table):
    return [run["id"] for run in who.get(f"{table}/trigger-runs?status=pending").json["items"]]


def test_what_was_cancelled_is_retried_only_by_its_id(author, authored):
    runs = fire(author, authored, 2)
    cancel_all(author, authored)

    assert author.post(f"{authored}/trigger-runs/retry", json={}).json["retried"] == 0

    retried = author.post(f"{authored}/trigger-runs/{runs[0]['id']}/retry")
    assert retried.json["status"] == "pending"


def test_what_a_filter_finds_is_counted_and_cancelled(author, authored):
    *newer, oldest = fire(author, authored, 3)
    filter = {"record_id": oldest["record_id"], "trigger_id": oldest["trigger_id"]}

    counted = cancel_all(author, authored, **filter, dry_run=True)
    nothing = cancel_all(author, authored, trigger_id="trg_000000000000")
    assert pending_ids(author, authored) == [run["id"] for run in (*newer, oldest)]
    cancelled = cancel_all(author, authored, **filter)

    assert counted.json == {"matched": 1, "cancelled": 0}
    assert nothing.json == {"matched": 0, "cancelled": 0}
    assert cancelled.json == {"matched": 1, "cancelled": 1}
    assert pending_ids(author, authored) == [run["id"] for run in newer]
    ended = author.get(f"{authored}/trigger-runs/{oldest['id']}").json
    assert (ended["status"], ended["error"]) == ("failed", "cancelled")


def test_a_bulk_cancel_without_a_filter_takes_what_is_pending_in_the_table(
    author, authored, tenant, conn
):
    runs = fire(author, authored, 3)
    hold(conn, runs[0])
    other, _ = new_table(author, tenant=tenant)
    fire(author, other, 1)

    answer = cancel_all(author, authored)

    assert answer.json == {"matched": 2, "cancelled": 2}
    assert len(pending_ids(author, other)) == 1
    held = author.get(f"{authored}/trigger-runs/{runs[0]['id']}").json
    assert held["status"] == "running"


def test_a_bulk_cancel_takes_the_oldest_and_keeps_its_limit(author, authored, monkeypatch):
    monkeypatch.setattr("shared.usecases.manage_work.MAX_CANCELLED", 2)
    runs = fire(author, authored, 3)

    answer = cancel_all(author, authored)

    assert answer.json == {"matched": 3, "cancelled": 2}
    assert pending_ids(author, authored) == [runs[0]["id"]]


@pytest.mark.parametrize(
    "body", [{"status": "failed"}, {"record_id": 0}, {"from": "yesterday"}, {"limit": 5}]
)
def test_a_filter_of_a_bulk_cancel_that_is_not_understood_is_refused(body, author, authored):
    [run] = fire(author, authored, 1)

    assert problem(cancel_all(author, authored, **body))[0] == 400
    assert pending_ids(author, authored) == [run["id"]]


def test_a_run_of_another_table_is_absent(author, authored, tenant):
    run = fire(author, authored, 1)[0]
    other, _ = new_table(author, tenant=tenant)
    path = f"{other}/trigger-runs/{run['id']}"

    for answer in (
        author.get(path),
        author.post(f"{path}/retry"),
        author.post(f"{path}/cancel"),
        author.delete(path),
    ):
        assert problem(answer)[:2] == (404, "run_not_found")


def test_runs_of_another_tenant_are_403(moderator, stranger, table):
    run = fire(moderator, table, 1)[0]

    for answer in (
        stranger.get(f"{table}/trigger-runs"),
        stranger.get(f"{table}/trigger-runs/{run['id']}"),
        stranger.post(f"{table}/trigger-runs/{run['id']}/retry"),
        stranger.post(f"{table}/trigger-runs/retry", json={}),
        stranger.post(f"{table}/trigger-runs/cancel", json={}),
    ):
        assert problem(answer)[:2] == (403, "tenant_forbidden")
