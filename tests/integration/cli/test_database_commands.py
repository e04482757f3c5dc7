"""Commands that work on the database of DATABASE_URL."""

import json
import re
from dataclasses import fields
from uuid import UUID

import pytest

from services.api.openapi import build_document
from shared.db.migrate import known_migrations
from shared.settings import Settings
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tick import RECORD_LIMIT, TABLE_LIMIT
from shared.usecases.tokens import authenticate
from tests.builders_db import LONG_AGO, insert_run, insert_table
from tests.builders_staged import insert_change
from tests.integration.cli.conftest import ADMIN_TOKEN, CommandLine

NOBODY = "postgresql://nobody:nothing@127.0.0.1:1/none"


def test_migrate_applies_what_is_missing_and_then_nothing(empty_database_url):
    operator = CommandLine(DATABASE_URL=empty_database_url)

    first, second = operator.told("migrate"), operator.told("migrate")

    assert first == {"applied": [migration.name for migration in known_migrations()]}
    assert second == {"applied": []}
    assert operator.run("migrate").stdout == "the database is up to date\n"


def test_the_keys_of_the_environment_are_listed_without_one():
    listed = CommandLine().run("settings", "--json")

    items = {item["key"]: item for item in json.loads(listed.stdout)}
    assert set(items) == {field.name.upper() for field in fields(Settings)}
    assert items["PUBLIC_URL"]["default"] == "http://API_HOST:API_PORT"
    assert (items["RATE_LIMIT"]["default"], items["RATE_LIMIT"]["read_by"]) == (12_000, "api")
    assert items["RATE_LIMIT"]["means"].endswith("0: no limit (docs/api.md)")
    assert items["DATABASE_URL"]["means"].endswith("standbys: docs/failover.md")
    assert items["AMQP_URL"]["default"] is None
    assert re.search(
        r"^ADMIN_TOKEN +required +text +api +what", CommandLine().run("settings").stdout, re.M
    )


def test_openapi_needs_no_server_and_no_database():
    done = CommandLine().run("openapi")

    assert json.loads(done.stdout) == build_document()


def test_the_help_of_tick_tells_its_defaults():
    told = " ".join(CommandLine().run("tick", "--help").stdout.split())

    assert f"those scanned longest ago. [default: {TABLE_LIMIT}]" in told
    assert f"page of a date trigger. [default: {RECORD_LIMIT}]" in told


def test_tick_creates_the_runs_that_are_due(on_database, conn):
    table = insert_table(conn)
    hourly = {"type": "interval", "every_seconds": 3600}
    action = {"type": "notify", "chatroom_id": str(table.id), "message": "an hour"}
    trigger = {"on": "schedule", "schedule": hourly, "actions": [action]}
    set_triggers(conn, table.id, [trigger], now=LONG_AGO)

    done = on_database.run_apart("tick", "--json")

    assert json.loads(done.stdout) == {
        "tables_scanned": 1,
        "tables_with_schedules": 1,
        "runs_created": 1,
        "trigger_runs_requeued": 0,
        "staged_changes_requeued": 0,
    }


def test_a_token_is_shown_once_and_can_be_listed_and_revoked(on_database, conn, tenant):
    text = on_database.run("token", "create", "ci", "--tenant", "ours", "--role", "editor").stdout

    assert authenticate(conn, text=text.strip()).role == "editor"
    [listed] = on_database.told("token", "list", "--tenant", tenant.id)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", listed["created_at"])
    assert (listed["name"], listed["revoked_at"]) == ("ci", None)
    assert text.strip() not in json.dumps(listed)
    assert on_database.told("token", "revoke", listed["id"], "--tenant", "ours")["revoked"]
    [listed] = on_database.told("token", "list", "--tenant", "ours")
    assert listed["revoked_at"] is not None


def test_a_first_token_can_bring_its_tenant(on_database, conn):
    text = on_database.told("token", "create", "first", "--tenant", "acme", "--new-tenant")["token"]

    tenant_id = authenticate(conn, text=text).tenant_id
    [name] = conn.execute("SELECT name FROM tenant WHERE id = %s", [tenant_id]).fetchone()
    assert name == "acme"


@pytest.fixture(params=["database", "api"])
def operator(request, database_url):
    """The command line of an operator, and the option that says where it works."""
    if request.param == "database":
        return CommandLine(DATABASE_URL=database_url), []
    url = request.getfixturevalue("api_url")
    return CommandLine(ADMIN_TOKEN=ADMIN_TOKEN), ["--api", url]


def test_tenants_are_made_and_listed_the_oldest_first(operator, conn):
    command, where = operator

    made = [command.told("tenants", "create", name, *where) for name in ("b", "a")]

    assert command.told("tenants", *where) == made
    assert command.told("tenants", "list", "--limit", 1, *where) == made[:1]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", made[0]["created_at"])
    tenants = {row[0] for row in conn.execute("SELECT tenant_id FROM signing_key")}
    assert tenants == {UUID(one["id"]) for one in made}
    shown = command.run("tenants", *where).stdout.splitlines()
    assert shown[0].split() == ["tenant", "name", "created", "at"]
    assert [line.split()[:2] for line in shown[1:]] == [[one["id"], one["name"]] for one in made]


def test_tenants_of_many_pages_are_listed(operator, conn):
    command, where = operator
    conn.execute(
        "INSERT INTO tenant (name, created_at)"
        " SELECT 't' || n, '2026-01-01Z'::timestamptz + n * interval '1 s'"
        " FROM generate_series(1, 1200) AS n"
    )

    listed = command.told("tenants", "--limit", 1100, *where)

    assert [one["name"] for one in listed] == [f"t{n}" for n in range(1, 1101)]


def test_no_tenant_is_said(operator):
    command, where = operator

    assert command.run("tenants", *where).stdout == "no tenants\n"


def test_a_tenant_of_a_name_in_use_is_refused(operator, tenant):
    command, where = operator

    done = command.run("tenants", "create", tenant.name, *where)

    assert (done.exit_code, done.stderr) == (1, "Error: a tenant has this name already\n")


@pytest.mark.parametrize("name", ["", "x" * 201])
@pytest.mark.parametrize(
    "command",
    [
        ["tenants", "create"],
        ["token", "create", "--tenant", "ours"],
        ["token", "create", "ci", "--new-tenant", "--tenant"],
    ],
)
def test_a_name_that_none_can_have_is_wrong_usage(on_database, tenant, command, name):
    done = on_database.run(*command, name)

    assert done.exit_code == 2
    assert "a name has 1 to 200 characters" in done.stderr


def test_an_unknown_tenant_is_told_in_one_line_with_those_there_are(on_database, tenant):
    done = on_database.run("token", "list", "--tenant", "nobody")

    told = f"Error: there is no tenant 'nobody': there is '{tenant.name}'\n"
    assert (done.exit_code, done.stderr) == (1, told)


@pytest.mark.parametrize(
    ("environment", "status", "told"),
    [
        ({}, 2, "DATABASE_URL"),
        ({"DATABASE_URL": "mysql://x"}, 2, "DATABASE_URL"),
        ({"DATABASE_URL": NOBODY}, 3, "the database: "),
    ],
)
def test_a_database_that_is_not_named_or_not_reached_has_exit_codes(environment, status, told):
    done = CommandLine(**environment).run("token", "list", "--tenant", "ours")

    assert done.exit_code == status
    assert told in done.stderr
    assert "Traceback" not in done.output


class TestDoctor:
    def test_a_sound_installation_passes(self, on_database):
        done = on_database.run_apart("doctor", "--verify", "--json")

        told = json.loads(done.stdout)
        assert done.returncode == 0
        assert told["ok"]
        assert told["violations"] == []
        states = {check["name"]: check["state"] for check in told["checks"]}
        assert states["workers"] == "warning"
        assert set(states.values()) == {"ok", "warning"}
        assert {"database", "migrations", "sessions", "notifications", "clock"} <= {*states}

    def test_missing_migrations_are_a_failure(self, empty_database_url):
        done = CommandLine(DATABASE_URL=empty_database_url).run_apart("doctor")

        assert done.returncode == 1
        assert "run duebook migrate" in done.stdout

    def test_a_database_that_is_not_reached_is_a_failure(self):
        done = CommandLine(DATABASE_URL=NOBODY).run_apart("doctor", "--json")

        checks = json.loads(done.stdout)["checks"]
        assert done.returncode == 1
        assert ("database", "failed") in [(check["name"], check["state"]) for check in checks]

    def test_changes_that_are_not_applied_are_told(self, on_database, conn):
        insert_change(conn)
        insert_change(conn, status="approved", announcements=1)

        checks = json.loads(on_database.run_apart("doctor", "--json").stdout)["checks"]

        assert {
            "name": "staged changes",
            "state": "warning",
            "found": "1 to be reviewed since 2020-01-01, 1 approved and not applied in time",
        } in checks

    def test_a_broken_invariant_is_told_by_its_number(self, on_database, conn):
        run_id = insert_run(conn, status="done", attempts=2)

        done = on_database.run_apart("doctor", "--verify", "--json")

        assert done.returncode == 1
        found = [
            (violation["invariant"], violation["found"])
            for violation in json.loads(done.stdout)["violations"]
        ]
        assert ("I13", f"trigger_run {run_id}, attempts 2, worker losses 0") in found

    def test_what_is_late_counts_as_forgotten_after_the_grace(self, on_database, conn):
        insert_run(conn, created_at=LONG_AGO)
        decades = 40 * 365 * 86_400

        late = on_database.run_apart("doctor", "--verify", "--json")
        patient = on_database.run_apart("doctor", "--verify", "--grace", decades, "--json")

        def numbers(done):
            return {one["invariant"] for one in json.loads(done.stdout)["violations"]}

        assert "I8" in numbers(late)
        assert "I8" not in numbers(patient)

    def test_the_broker_is_looked_at_where_there_is_one(self, on_database, rabbit_url):
        on_database.environment["AMQP_URL"] = rabbit_url

        checks = json.loads(on_database.run_apart("doctor", "--json").stdout)["checks"]

        [broker] = [check for check in checks if check["name"] == "broker"]
        assert broker["state"] == "ok"
        assert "action_execute 0" in broker["found"]

    @pytest.mark.parametrize(
        ("url", "state"),
        [
            ("", "warning"),
            ("http://0.0.0.0:8000", "warning"),
            ("http://[::1]:8000", "warning"),
            ("https://go.example.com", "ok"),
        ],
    )
    def test_links_that_lead_nowhere_are_told(self, on_database, url, state):
        on_database.environment["PUBLIC_URL"] = url

        checks = json.loads(on_database.run_apart("doctor", "--json").stdout)["checks"]

        [links] = [check for check in checks if check["name"] == "tracking links"]
        assert links["state"] == state

    def test_redis_is_looked_at_where_there_is_one(self, on_database, redis_url):
        found = {}
        for url in ("", redis_url, "redis://:hunter2@127.0.0.1:1/0"):
            on_database.environment["REDIS_URL"] = url
            done = on_database.run_apart("doctor", "--json")
            assert "hunter2" not in done.stdout
            [redis] = [one for one in json.loads(done.stdout)["checks"] if one["name"] == "redis"]
            found[url] = redis["state"], redis["found"].partition(" (")[0]

        assert list(found.values()) == [
            ("ok", "none: clicks are in PostgreSQL alone"),
            ("ok", "answers"),
            ("warning", "does not answer"),
        ]
