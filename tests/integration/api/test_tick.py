from dataclasses import replace

import pytest

from services.api.app import create_app
from services.api.dependencies import operator_sessions
from shared.db.roles import API, SCANNER
from tests.integration.api.callers import problem
from tests.servers.postgres import LOGINS

PATH = "/root/custom-tables/run-due-triggers"
TABLES = "/root/custom-tables/tables"
_INHERITS = "SELECT pg_has_role(%s, %s, 'USAGE')"
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


@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("GET", TABLES)])
def test_what_is_across_tenants_needs_a_login_that_may_act_as_a_scanner(
    admin, parts, login_url, server_admin, method, path
):
    narrow = replace(parts, operator_sessions=operator_sessions(login_url(API)))
    who = replace(admin, client=create_app(narrow).test_client())

    status, code, detail = problem(who.request(method, path))

    assert (status, code) == (403, "database_role_missing")
    _, _, statement = detail.partition("or who made that role, run ")
    server_admin.execute(statement)
    try:
        assert who.request(method, path).status_code == 200
        [inherits] = server_admin.execute(_INHERITS, [LOGINS[API], SCANNER]).fetchone()
    finally:
        server_admin.execute(f"REVOKE {SCANNER} FROM {LOGINS[API]}")
    assert inherits == (server_admin.info.server_version < 160_000)
