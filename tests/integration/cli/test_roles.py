"""The command line of logins that are of one service alone."""

import json
import re
from importlib.metadata import version

import pytest

from shared.db.connection import connect
from shared.db.roles import API, ROLES, SCANNER, WORKER
from shared.queries.workers import hold_liveness
from tests.builders_db import insert_run, insert_worker
from tests.integration.cli.conftest import CommandLine

_TOKEN = "11111111-1111-4111-8111-111111111111"
# Commands, and who they are for: a service, or the owner of the tables, who does what is named.
_BELONGS_TO = [
    (("migrate",), "migrate"),
    (("restored",), "do it"),
    (("tick",), SCANNER),
    (("secrets", "rotate"), WORKER),
    (("token", "create", "ci", "--tenant", "ours"), API),
    (("token", "create", "ci", "--tenant", "new", "--new-tenant"), API),
    (("tenants",), API),
    (("tenants", "create", "new"), API),
    (("token", "list", "--tenant", "ours"), API),
    (("token", "revoke", _TOKEN, "--tenant", "ours"), API),
    (("runs", "--stuck", "--tenant", "ours"), API),
    (("export", "--tenant", "ours"), API),
]


@pytest.fixture
def as_login(login_url):
    """Returns the command line of somebody who has the login of a service."""
    return lambda service: CommandLine(DATABASE_URL=login_url(service))


@pytest.fixture
def strange_login(postgres_process, database_url):
    """Makes a login that is new to the database, and takes it away again."""
    server, made = postgres_process.server, []
    with connect(server.url("postgres"), application_name="test") as admin:

        def make(*statements):
            made.append("stranger_1")
            admin.execute(f"CREATE ROLE stranger_1 LOGIN PASSWORD '{server.password}'")
            for statement in statements:
                admin.execute(statement)
            return server.url(database_url.rpartition("/")[2], role="stranger_1")

        yield make
        for login in made:
            admin.execute(f"DROP ROLE {login}")


def _reason(owner, service):
    """Return what the login of a service, or of none, is told about a command of this owner."""
    if owner not in ROLES:
        return rf"permission denied for \w+ \w+: let the owner of the tables {owner}"
    if service is None:
        remedy = f'let a superuser, or who made that role, run GRANT {owner} TO "stranger_1"'
    else:
        remedy = f"it is of {service}, use a login of {owner}"
    return rf'the database\'s role "\w+" may not act as {owner}: {remedy}'


@pytest.mark.parametrize(
    ("command", "owner", "service"),
    [
        (command, owner, service)
        for command, owner in _BELONGS_TO
        for service in (*ROLES, None)
        if service != owner
    ],
)
def test_a_command_that_belongs_elsewhere_says_so_in_one_line(
    command, owner, service, as_login, strange_login, tenant
):
    there = CommandLine(DATABASE_URL=strange_login()) if service is None else as_login(service)

    done = there.run(*command)

    assert (done.exit_code, done.stdout) == (1, ""), done.output
    assert re.fullmatch(f"Error: {_reason(owner, service)}\n", done.stderr), done.stderr
    assert isinstance(done.exception, SystemExit)


def test_the_doctor_tells_a_login_of_no_service_what_is_wrong(strange_login):
    done = CommandLine(DATABASE_URL=strange_login()).run_apart("doctor", "--json")

    states = {check["name"]: check["state"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 1
    assert states["migrations"] == "failed"


@pytest.fixture
def closed_schema(postgres_process, database_url):
    """The schema of the tables, which nobody but its owner may use."""
    url = postgres_process.server.url(database_url.rpartition("/")[2])
    with connect(url, application_name="test") as admin:
        admin.execute("REVOKE USAGE ON SCHEMA public FROM PUBLIC")


def test_tables_in_a_schema_that_is_closed_are_not_taken_for_none(as_login, closed_schema):
    listed = as_login(API).run("token", "list", "--tenant", "ours")
    looked = as_login(SCANNER).run_apart("doctor", "--json")

    found = {check["name"]: check for check in json.loads(looked.stdout)["checks"]}
    told = f"GRANT USAGE ON SCHEMA public TO {API}, {SCANNER}, {WORKER}"
    assert listed.exit_code == 1
    assert listed.stderr.endswith(
        f"{API} may not use the schema public: let its owner run {told}\n"
    )
    assert looked.returncode == 1
    assert found["migrations"]["state"] == "failed"
    assert told in found["migrations"]["found"]


def test_ids_in_a_schema_that_is_closed_are_not_taken_for_none(
    as_login, on_database, strange_login, closed_schema
):
    stranger = CommandLine(DATABASE_URL=strange_login())

    done = [there.run("restored") for there in (as_login(API), on_database, stranger)]

    grant = f"let its owner run GRANT USAGE ON SCHEMA public TO {API}, {SCANNER}, {WORKER}"
    assert [one.exit_code for one in done] == [1, 1, 1]
    assert [one.stderr for one in done] == [
        f"Error: api_1 may not use the schema public: {grant}\n",
        f"Error: duebook may not use the schema public: {grant}\n",
        "Error: stranger_1 may not use the schema public, and has the rights of no service\n",
    ]


def test_the_doctor_tells_a_login_of_no_service_that_the_schema_is_closed(
    strange_login, closed_schema
):
    done = CommandLine(DATABASE_URL=strange_login()).run_apart("doctor", "--json")

    found = {check["name"]: check["found"] for check in json.loads(done.stdout)["checks"]}
    assert found["migrations"] == (
        "not to be seen: stranger_1 may not use the schema public, and has the rights of no service"
    )


def test_the_doctor_looks_as_the_scanner_that_a_login_may_become(strange_login, conn):
    insert_run(conn, status="failed")
    url = strange_login("ALTER ROLE stranger_1 NOINHERIT", f"GRANT {API}, {SCANNER} TO stranger_1")

    done = CommandLine(DATABASE_URL=url).run_apart("doctor", "--json")
    verified = CommandLine(DATABASE_URL=url).run_apart("doctor", "--verify", "--json")

    found = {check["name"]: check["found"] for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0
    assert found["roles"] == f"the login is of {API}, {SCANNER}"
    assert found["stuck runs"].startswith("1 failed")
    # Invariants are asked of what both roles see at once.
    assert verified.returncode == 1
    assert f"does not inherit the rights of {SCANNER}, and cannot verify" in verified.stdout


def test_who_has_the_roles_of_scanner_and_api_may_verify(strange_login):
    url = strange_login(f"GRANT {API}, {SCANNER} TO stranger_1")

    done = CommandLine(DATABASE_URL=url).run_apart("doctor", "--verify", "--json")

    told = json.loads(done.stdout)
    assert (done.returncode, told["violations"]) == (0, [])


@pytest.mark.parametrize(
    ("roles", "state"),
    [(["trigger-worker"], "warning"), (["trigger-worker", "action-worker"], "ok")],
)
def test_the_doctor_misses_the_workers_of_a_role(as_login, conn, rabbit_url, roles, state):
    worker_id = insert_worker(conn, roles=roles, release=version("duebook"))
    assert hold_liveness(conn, worker_id)
    there = as_login(SCANNER)
    there.environment["AMQP_URL"] = rabbit_url

    checks = json.loads(there.run_apart("doctor", "--json").stdout)["checks"]

    [workers] = [check for check in checks if check["name"] == "workers"]
    threads = 4 if "action-worker" in roles else 0
    assert workers["state"] == state
    assert workers["found"].endswith(
        f"4 threads of trigger-worker, {threads} threads of action-worker"
    )


def test_the_doctor_does_not_take_hidden_work_for_none(as_login):
    done = as_login(API).run_apart("doctor", "--verify", "--json")

    told = json.loads(done.stdout)
    assert done.returncode == 1
    assert not told["ok"]
    assert ("roles", "failed") in [(check["name"], check["state"]) for check in told["checks"]]


def test_the_login_of_a_scanner_sees_the_work(as_login):
    checks = json.loads(as_login(SCANNER).run_apart("doctor", "--json").stdout)["checks"]

    states = {check["name"]: check["state"] for check in checks}
    assert states["roles"] == "ok"
    assert {"scanner", "stuck runs"} <= {*states}


def test_the_doctor_says_which_role_a_login_lacks_to_verify(as_login):
    done = as_login(SCANNER).run_apart("doctor", "--verify", "--json")

    told = json.loads(done.stdout)
    found = {check["name"]: check["found"] for check in told["checks"]}
    assert done.returncode == 1
    assert found["roles"] == (
        "the login may not act as duebook_api, and cannot verify: "
        "look with the owner's login, or one of all three roles"
    )


@pytest.mark.parametrize("service", ROLES)
def test_the_doctor_tells_no_login_of_a_service_to_be_given_more(as_login, service):
    for option in ("--json", "--verify"):
        told = as_login(service).run_apart("doctor", option).stdout

        assert "GRANT" not in told
        assert "look with the owner's login" in " ".join(told.split())


def test_a_tick_is_a_scanners(as_login):
    refused = as_login(WORKER).run("tick", "--json")
    done = as_login(SCANNER).run_apart("tick", "--json")

    assert refused.exit_code == 1
    assert '"worker_1" may not act as duebook_scanner: it is of duebook_worker' in refused.stderr
    assert "GRANT" not in refused.stderr
    assert json.loads(done.stdout)["runs_created"] == 0


def test_the_login_of_an_api_issues_tokens(as_login):
    on_database = as_login(API)

    issued = on_database.told("token", "create", "ci", "--tenant", "new", "--new-tenant")

    assert issued["token"].startswith("dbk_")
    assert [one["name"] for one in on_database.told("token", "list", "--tenant", "new")] == ["ci"]
