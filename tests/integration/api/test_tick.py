import pytest

from tests.integration.api.callers import problem

PATH = "/root/custom-tables/run-due-triggers"
INTERVAL = {
    "on": "schedule",
    "schedule": {"type": "interval", "every_seconds": 3600},
    "actions": [{"type": "webhook", "url": "https://example.com/hook"}],
}


def test_a_tick_creates_the_runs_that_are_due_and_tells_its_counts(admin, moderator, table):
    moderator.put(f"{table}/triggers", json={"triggers": [INTERVAL]})

    first = admin.post(PATH)
    second = admin.post(f"{PATH}?table_limit=2000&record_limit=10000")

    assert first.json == {
        "tables_scanned": 1,
        "tables_with_schedules": 1,
        "runs_created": 1,
        "trigger_runs_requeued": 0,
        "staged_changes_requeued": 0,
    }
    assert second.json["runs_created"] == 0
    (run,) = moderator.get(f"{table}/trigger-runs").json["items"]
    assert (run["kind"], run["record_id"], run["snapshot"]) == ("interval", None, {})
    assert len(run["window_key"]) == len("20260827T0502")


@pytest.mark.parametrize(
    "query",
    [
        "table_limit=0",
        "table_limit=2001",
        "record_limit=0",
        "record_limit=10001",
        "record_limit=true",
        "limit=1",
    ],
)
def test_a_tick_takes_limits_within_bounds(query, admin):
    assert problem(admin.post(f"{PATH}?{query}"))[0] == 400


@pytest.mark.parametrize("headers", [{}, {"X-ADMIN-TOKEN": "wrong"}])
def test_only_the_admin_ticks(headers, client, moderator):
    for answer in (client.post(PATH, headers=headers), moderator.post(PATH)):
        assert problem(answer) == (
            403,
            "admin_token_invalid",
            "BaseRoot access denied: Invalid X-ADMIN-TOKEN",
        )
