"""Commands on a database without an API: the same answers, for the operator of one tenant."""

import json

import click
import pytest
from psycopg.types.json import Jsonb

from services.cli.main import SECTIONS, main
from shared.db.clock import server_now
from shared.sealing import Sealer
from shared.usecases.tokens import create_tenant
from tests.builders_db import insert_records, insert_run, insert_table
from tests.builders_delayed import insert_action
from tests.integration.cli.conftest import CommandLine


@pytest.fixture
def table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="orders")


@pytest.fixture
def local(database_url):
    return CommandLine(DATABASE_URL=database_url, DUEBOOK_TENANT="ours")


def told(command_line, *arguments):
    done = command_line.run_apart(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_what_is_told_is_the_same_with_and_without_an_api(on_api, local, conn, tenant, table):
    insert_records(conn, table, [{"c1": "broken lamp"}])
    run = insert_run(conn, table, status="failed", record_id=7, snapshot=Jsonb({}))
    action = insert_action(conn, tenant.id)

    for command in (
        ("tables",),
        ("tables", "show", "orders"),
        ("runs", "--status", "failed"),
        ("runs", "show", run),
        ("actions", "list", "--status", "pending"),
        ("actions", "show", action),
        ("changes",),
    ):
        assert told(local, *command) == on_api.told(*command), command


def test_what_is_moved_is_moved(local, conn, tenant, table):
    run = insert_run(conn, table, status="failed", record_id=7, snapshot=Jsonb({}))
    action = insert_action(conn, tenant.id)

    assert told(local, "runs", "retry", run)[0]["status"] == "pending"
    assert told(local, "actions", "cancel", action)[0]["status"] == "cancelled"


def test_records_are_imported_and_definitions_exported(local, table, tmp_path):
    file = tmp_path / "orders.jsonl"
    column = table.columns[0].name
    file.write_text("".join(json.dumps({column: str(n)}) + "\n" for n in range(3)))

    assert told(local, "records", "import", "orders", file)["created"] == 3
    exported = local.run_apart("export")
    assert exported.returncode == 0, exported.stderr
    assert [json.loads(line)["name"] for line in exported.stdout.splitlines()] == ["orders"]


def test_a_tenant_has_its_own_alone(local, conn, table):
    theirs = create_tenant(
        conn, name="theirs", key_secret=b"k" * 32, sealer=Sealer(), now=server_now(conn)
    )
    secrets = insert_table(conn, tenant_id=theirs.id, name="secrets")

    assert [one["name"] for one in told(local, "tables")] == ["orders"]
    assert [one["name"] for one in told(local, "tables", "--tenant", theirs.id)] == ["secrets"]
    for name in ("secrets", str(secrets.id)):
        refused = local.run_apart("preview", name)
        assert (refused.returncode, refused.stderr) == (1, f"Error: there is no table '{name}'\n")


def test_a_single_tenant_need_not_be_named(database_url, conn, table):
    nowhere = CommandLine()
    assert told(nowhere, "tables", "--database", database_url)[0]["name"] == "orders"

    create_tenant(conn, name="theirs", key_secret=b"k" * 32, sealer=Sealer(), now=server_now(conn))
    refused = nowhere.run_apart("tables", "--database", database_url)
    assert refused.returncode == 1
    assert "several tenants, 'ours', 'theirs': say which with --tenant" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--tenant", "nobody"], 1, "there is no tenant 'nobody'"),
        (["--database", "postgresql://127.0.0.1:1/nothing"], 3, "the database: "),
        (["--database", "mysql://db"], 2, "DATABASE_URL"),
        (["--tenant", "ours", "--api", "http://127.0.0.1:1"], 2, "--api goes without"),
    ],
)
def test_where_a_command_cannot_work_it_says_so(on_database, arguments, status, message):
    done = on_database.run_apart("tables", *arguments)

    assert (done.returncode, done.stdout) == (status, "")
    assert message in done.stderr


def test_a_database_without_the_migrations_is_no_place(empty_database_url):
    for command in (
        ["tables", "--database", empty_database_url],
        ["token", "list", "--tenant", "a"],
    ):
        done = CommandLine(DATABASE_URL=empty_database_url).run_apart(*command)
        assert done.returncode == 1
        assert "run duebook migrate" in done.stderr


def test_a_number_where_a_command_is_awaited_is_told_how_to_be_shown(on_database):
    for group in ("runs", "actions"):
        done = on_database.run(group, "3")
        assert done.exit_code == 2
        assert f"{group} show 3" in done.output


def leaves(command, path):
    if not isinstance(command, click.Group):
        yield path, command
        return
    for name, below in command.commands.items():
        yield from leaves(below, [*path, name])


def test_every_command_answers_scripts_and_stands_in_the_help(on_database):
    shown = on_database.run("--help").output
    grouped = {command for commands in SECTIONS.values() for command in commands}

    assert {*main.commands.values()} == grouped
    for path, command in leaves(main, []):
        assert f"\n  {path[0]} " in shown
        options = {name for parameter in command.params for name in parameter.opts}
        assert "--json" in options or path == ["dev"], path
        if "--api" in options and path[0] not in ("tick", "tenants"):
            assert {"--database", "--tenant"} <= options, path
