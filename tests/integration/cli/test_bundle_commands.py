"""``export``, ``plan`` and ``apply``, as a person and as a script meet them."""

import json

import pytest
from click.testing import CliRunner

from services.cli.main import main
from shared.db.clock import server_now
from shared.usecases.set_triggers import set_triggers
from shared.usecases.tokens import issue_token
from tests.builders_db import insert_records, insert_table
from tests.builders_rules import NOTIFY
from tests.integration.cli.conftest import CommandLine

CHANNEL = "c0000000-0000-4000-8000-000000000001"
DUE = {"type": "date_column_reached", "column": "due"}


@pytest.fixture
def orders(conn, tenant):
    table = insert_table(conn, tenant_id=tenant.id, name="orders")
    trigger = {"name": "remind", "on": "schedule", "schedule": DUE, "actions": [NOTIFY]}
    set_triggers(conn, table.id, [trigger], now=server_now(conn))
    return table


@pytest.fixture
def exported(on_api, orders, tmp_path):
    """The file of an export."""
    file = tmp_path / "ours.jsonl"
    assert on_api.run("export", "--output", file).exit_code == 0
    return file


def edit(file, change):
    """Write the lines of a file anew, each changed."""
    lines = [change(json.loads(line)) for line in file.read_text().splitlines()]
    file.write_text("".join(f"{json.dumps(line)}\n" for line in lines if line is not None))


def named(kind, name):
    def change(line):
        return {**line, "name": name} if line["kind"] == kind else line

    return change


def columns_renamed(**names):
    def change(line):
        text = json.dumps(line)
        for old, new in names.items():
            text = text.replace(f'"{old}"', f'"{new}"')
        return json.loads(text)

    return change


def answered(on_api, answer, *arguments):
    """Run a command whose question is answered."""
    runner = CliRunner(env={**on_api.environment})
    return runner.invoke(main, [str(argument) for argument in arguments], input=f"{answer}\n")


def test_what_is_exported_is_nothing_to_do(on_api, orders, exported):
    printed = on_api.run("export")
    planned = on_api.run("plan", exported)

    assert printed.stdout_bytes == exported.read_bytes()
    assert planned.exit_code == 0
    assert planned.stdout == ("Nothing to do: 0 created, 0 updated, 0 deleted, 2 as they are.\n")
    assert on_api.run("apply", exported).exit_code == 0


def test_a_renamed_column_is_shown_as_one(on_api, exported):
    edit(exported, columns_renamed(due="till"))

    planned = on_api.run("plan", exported)

    assert planned.exit_code == 2
    assert planned.stdout == (
        "~ table 'orders'  (line 1)\n"
        '    ~ /columns/1/name renamed: "due" → "till"\n'
        "\n"
        "Plan: 0 created, 1 updated, 0 deleted, 1 as they are.\n"
    )


def test_a_plan_shows_what_comes_goes_and_follows(on_api, conn, orders, exported):
    insert_records(conn, orders, [{"c2": "2020-01-02"}, {"c2": "2020-01-03"}])
    new = {"kind": "trigger", "table": "orders", "name": "later", "on": "schedule"}
    new |= {"schedule": {**DUE, "offset_minutes": 1}, "actions": [NOTIFY]}
    edit(exported, lambda line: line if line["kind"] == "table" else new)

    planned = on_api.run("plan", exported)

    assert planned.stdout.splitlines()[:3] == [
        "+ trigger 'later' of 'orders'  (line 2)",
        "    → at the next tick 2 fire, the oldest due at 2020-01-02T00:01:00Z;"
        " 0 more within 24 hours",
        "- trigger 'remind' of 'orders'",
    ]


def test_what_is_overdue_may_be_consumed(on_api, conn, orders, exported):
    insert_records(conn, orders, [{"c2": "2020-01-02"}, {"c2": "2020-01-03"}])
    edit(exported, lambda line: {**line, "id": "trg_0000000000dd"} if "id" in line else line)

    shown = on_api.run("plan", exported, "--on-existing", "consume").stdout
    applied = on_api.run("apply", exported, "--yes", "--on-existing", "consume")

    assert "at the next tick 0 fire; 0 more within 24 hours; 2 will never fire" in shown
    assert applied.exit_code == 0
    assert conn.execute("SELECT count(*) FROM backlog").fetchone()[0] == 1
    drip = on_api.run("plan", exported, "--on-existing", "drip")
    assert (drip.exit_code, "per_minute is for on_existing drip" in drip.stderr) == (1, True)


def test_scripts_get_json_and_a_code(on_api, exported):
    unchanged = on_api.told("plan", exported)
    edit(exported, named("trigger", "other"))
    changed = on_api.run("plan", exported, "--json")

    assert unchanged["counts"]["noop"] == 2
    assert (changed.exit_code, json.loads(changed.stdout)["counts"]["update"]) == (2, 1)
    applied = on_api.told("apply", exported, "--yes")
    assert applied["counts"]["update"] == 1
    assert on_api.told("apply", exported, "--yes")["counts"]["update"] == 0


def test_every_fault_is_told_with_its_line(on_api, exported):
    exported.write_text(exported.read_text() + "{\n" + '{"kind": "table", "name": "x"}\n')

    refused = on_api.run("plan", exported)

    assert refused.exit_code == 1
    assert refused.stderr.splitlines()[0].startswith("line 3: the text is not JSON")
    assert refused.stderr.splitlines()[1] == "line 4, /columns: columns is missing"


@pytest.mark.parametrize(
    ("text", "options", "told"),
    [
        ("\n", [], "Error: the document is empty\n"),
        (None, ["--per-minute", 3], "Error: per_minute is for on_existing drip, "),
    ],
)
def test_a_fault_of_no_line_is_told_once(on_api, exported, text, options, told):
    exported.write_text(exported.read_text() if text is None else text)

    refused = on_api.run("plan", exported, *options)

    assert refused.exit_code == 1
    assert refused.stderr.startswith(told)
    assert len(refused.stderr.splitlines()) == 1


def test_an_apply_shows_the_plan_and_asks(on_api, exported, orders):
    edit(exported, named("trigger", "other"))

    refused = answered(on_api, "n", "apply", exported)
    assert refused.exit_code == 1
    assert on_api.run("plan", exported).exit_code == 2
    applied = answered(on_api, "y", "apply", exported)

    assert "~ trigger 'other' of 'orders'" in applied.stdout
    assert applied.stdout.endswith("Applied: 0 created, 1 updated, 0 deleted, 1 as they are.\n")
    assert on_api.run("plan", exported).exit_code == 0


def test_a_document_comes_through_a_pipe_too_where_nobody_can_be_asked(on_api, exported):
    edit(exported, named("trigger", "other"))
    runner = CliRunner(env=on_api.environment)
    document = exported.read_bytes()

    assert runner.invoke(main, ["plan", "-"], input=document).exit_code == 2
    assert runner.invoke(main, ["apply", "-"], input=document).exit_code == 2
    assert runner.invoke(main, ["plan", "-"], input=document).exit_code == 2
    assert on_api.run("apply", exported, "--json").exit_code == 2
    assert runner.invoke(main, ["apply", "-", "--yes"], input=document).exit_code == 0
    assert runner.invoke(main, ["plan", "-"], input=document).exit_code == 0


def test_what_changed_while_the_question_stood_is_not_overwritten(
    on_api, conn, orders, exported, monkeypatch
):
    edit(exported, named("trigger", "other"))

    def somebody_else(*_, **__):
        set_triggers(conn, orders.id, [], now=server_now(conn))
        return True

    monkeypatch.setattr("click.confirm", somebody_else)
    refused = on_api.run("apply", exported)

    assert refused.exit_code == 1
    assert "is not what it was when this was planned" in refused.stderr


def test_names_cannot_steer_the_terminal(on_api, exported):
    edit(exported, named("trigger", "\x1b[2Jgone\u202e"))

    told = on_api.run("plan", exported).stdout

    assert "trigger '\\x1b[2Jgone\\u202e'" in told
    assert "\x1b" not in told


def test_a_channel_has_a_bundle_of_its_own(conn, tenant, api_url, tmp_path):
    insert_table(conn, tenant_id=tenant.id, name="cases", channel_id=CHANNEL)
    insert_table(conn, tenant_id=tenant.id, name="orders")
    _, text = issue_token(
        conn,
        tenant_id=tenant.id,
        name="channel",
        role="moderator",
        channel_id=CHANNEL,
        secret=b"c" * 32,
        now=server_now(conn),
    )
    on_channel = CommandLine(DUEBOOK_API=api_url, DUEBOOK_TOKEN=text)

    [line] = on_channel.run("export", "--channel").stdout.splitlines()

    assert json.loads(line)["name"] == "cases"
    assert on_channel.run("export").exit_code == 1


def test_a_database_without_an_api_serves_too(database_url, tenant, exported):
    at_database = ("--database", database_url, "--tenant", tenant.name)
    edit(exported, named("trigger", "other"))

    assert CommandLine().run("plan", exported, *at_database).exit_code == 2
    assert CommandLine().run("apply", exported, "--yes", *at_database).exit_code == 0
    done = CommandLine().run("export", *at_database)

    assert json.loads(done.stdout.splitlines()[1])["name"] == "other"
