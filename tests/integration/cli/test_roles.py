"""The command line of logins that are of one service alone."""

import json

import pytest

from shared.db.roles import API, ROLES, SCANNER, WORKER
from tests.integration.cli.conftest import CommandLine


@pytest.fixture
def as_login(login_url):
    """Returns the command line of somebody who has the login of a service."""
    return lambda service: CommandLine(DATABASE_URL=login_url(service))


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
