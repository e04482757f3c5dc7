"""``duebook secrets``, and what ``duebook doctor`` says of stored secrets."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from services.cli.main import main
from shared.db.clock import server_now
from shared.db.roles import SCANNER
from shared.queries.secrets import secret_values
from shared.queries.tenants import insert_signing_key, list_signing_secrets
from tests.builders_db import insert_tenant
from tests.builders_sealed import CLEAR, LOST, NEW, NEW_KEY, OLD, OLD_KEY
from tests.integration.cli.conftest import CommandLine

BOTH = f"{NEW_KEY},{OLD_KEY}"


@pytest.fixture
def operator(database_url):
    """The command line of an operator with encryption keys."""
    return lambda keys: CommandLine(DATABASE_URL=database_url, ENCRYPTION_KEYS=keys)


@pytest.fixture
def add(conn):
    """Stores a signing key of a new tenant."""

    def add(sealer):
        tenant_id = insert_tenant(conn)
        secret = sealer.seal(b"s" * 32)
        insert_signing_key(conn, tenant_id=tenant_id, secret=secret, now=server_now(conn))
        return tenant_id

    return add


def _set(command_line, name, text):
    runner = CliRunner(env={"DATABASE_URL": None, **command_line.environment})
    return runner.invoke(main, ["secrets", "set", name], input=text)


def _values(conn, tenant):
    stored = secret_values(conn, tenant.id, ["crm_token"])
    return [sealed.content for sealed in stored.values()]


@pytest.mark.parametrize("text", ["canary", "canary\n", "canary\r\n"])
def test_a_secret_is_set_from_the_standard_input(on_api, conn, tenant, text):
    done = _set(on_api, "crm_token", text)

    assert (done.exit_code, done.stdout) == (0, "secret crm_token is set\n")
    assert _values(conn, tenant) == [b"canary"]


def test_secrets_are_listed_without_values_and_deleted(on_api, conn, tenant):
    _set(on_api, "crm_token", "canary")

    listed = on_api.told("secrets")
    shown = on_api.run("secrets")
    deleted = on_api.told("secrets", "delete", "crm_token")

    assert [set(secret) for secret in listed] == [{"name", "created_at", "updated_at"}]
    assert "crm_token" in shown.stdout
    assert "canary" not in shown.stdout
    assert deleted == {"name": "crm_token", "deleted": True}
    assert _values(conn, tenant) == []
    assert on_api.run("secrets", "list").stdout == "no secrets\n"


@pytest.mark.parametrize(("name", "text"), [("a/b", "x"), ("crm_token", ""), ("crm_token", "a\nb")])
def test_what_is_no_name_or_no_value_is_refused_in_a_line(on_api, conn, tenant, name, text):
    done = _set(on_api, name, text)

    assert done.exit_code in (1, 2)
    assert _values(conn, tenant) == []


def test_a_secret_is_set_on_a_database_and_encrypted(operator, conn, tenant):
    local = operator(BOTH)
    local.environment["DUEBOOK_TENANT"] = "ours"

    done = subprocess.run(
        [Path(sys.executable).with_name("duebook"), "secrets", "set", "crm_token"],
        env={"PATH": os.environ["PATH"], **local.environment},
        input="canary\n",
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (done.returncode, done.stderr) == (0, "")
    sealed = secret_values(conn, tenant.id, ["crm_token"])["crm_token"]
    assert (sealed.sealed_with, NEW.open(sealed)) == (NEW.current, b"canary")


def _check(command_line):
    """Return what the doctor says of secrets, and whether all is well with it."""
    done = command_line.run_apart("doctor", "--json")
    [told] = [one for one in json.loads(done.stdout)["checks"] if one["name"] == "secrets"]
    return told["state"], told["found"], done.returncode


def test_a_rotation_leaves_nothing_in_the_clear_or_under_an_older_key(operator, add, conn):
    tenant_ids = [add(CLEAR), add(OLD)]

    first, again = (operator(BOTH).told("secrets", "rotate") for _ in range(2))

    assert first == {"encrypted": 2, "unreadable": 0}
    assert again == {"encrypted": 0, "unreadable": 0}
    for tenant_id in tenant_ids:
        [sealed] = list_signing_secrets(conn, tenant_id, now=server_now(conn))
        assert NEW.open(sealed) == b"s" * 32


def test_a_rotation_that_can_not_read_all_ends_with_an_exit_code(operator, add):
    add(LOST)

    done = operator(BOTH).run("secrets", "rotate")

    assert done.exit_code == 1
    assert done.stdout == "0 encrypted under the first key\n"
    assert done.stderr == "1 can be decrypted with no key that is here\n"


def test_a_rotation_needs_a_key_and_the_login_of_a_worker(operator, add, login_url):
    without = operator("").run("secrets", "rotate")
    scanner = CommandLine(DATABASE_URL=login_url(SCANNER), ENCRYPTION_KEYS=BOTH)
    refused = scanner.run("secrets", "rotate")

    assert (without.exit_code, refused.exit_code) == (1, 1)
    assert "ENCRYPTION_KEYS names no key" in without.stderr
    assert "may not act as duebook_worker" in refused.stderr


def test_the_doctor_counts_what_is_not_kept_as_it_would_be_now(operator, add):
    add(CLEAR)
    assert _check(operator(""))[:2] == ("ok", "1, in the clear: ENCRYPTION_KEYS names no key")

    add(OLD)
    state, found, code = _check(operator(BOTH))
    assert (state, code) == ("warning", 0)
    assert found == "2, 1 in the clear, 1 under other keys: run duebook secrets rotate"

    operator(BOTH).run("secrets", "rotate")
    assert _check(operator(BOTH))[:2] == ("ok", "2, encrypted")


def test_the_doctor_finds_what_no_key_opens(operator, add):
    add(OLD)

    state, found, code = _check(operator(NEW_KEY))

    assert (state, code) == ("failed", 1)
    assert found == "1 of 1 can be decrypted with no key that is here"


def test_a_doctor_who_is_no_worker_says_that_he_did_not_look(login_url, add):
    add(OLD)

    state, found, code = _check(CommandLine(DATABASE_URL=login_url(SCANNER)))

    assert (state, code) == ("warning", 0)
    assert found.startswith("not looked at:")


def test_a_tenant_made_with_its_first_token_has_an_encrypted_key(operator, conn):
    operator(BOTH).told("token", "create", "ci", "--tenant", "new", "--new-tenant")

    [tenant_id] = conn.execute("SELECT id FROM tenant WHERE name = 'new'").fetchone()
    [sealed] = list_signing_secrets(conn, tenant_id, now=server_now(conn))
    assert sealed.sealed_with == NEW.current
