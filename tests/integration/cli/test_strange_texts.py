"""What strangers wrote, people and receivers, steers no terminal that it is shown on."""

import json

import pytest
from psycopg.types.json import Jsonb

from tests.builders import a_stored_trigger
from tests.builders_db import insert_records, insert_run, insert_table
from tests.builders_delayed import insert_action
from tests.builders_rules import NOTIFY
from tests.builders_staged import insert_change

STRANGE = "\x1b]0;mine\x07\x1b[2J\r\x7f\x9b31m\u202e案件　x"
WRITTEN_OUT = r"\x1b]0;mine\x07\x1b[2J\r\x7f\x9b31m\u202e案件　x"


@pytest.fixture
def table(conn, tenant):
    """A table in which everything is called strangely, with work that strangers have failed."""
    trigger = a_stored_trigger(name=STRANGE)
    table = insert_table(conn, tenant_id=tenant.id, name=STRANGE, triggers=[trigger])
    insert_records(conn, table, [{"c1": STRANGE}])
    failed = {"status": "failed", "error": f"answered 500: {STRANGE}"}
    insert_run(conn, table, **failed, snapshot=Jsonb({"c1": STRANGE}))
    insert_action(conn, tenant.id, **failed, action_config=Jsonb({**NOTIFY, "message": STRANGE}))
    insert_change(conn, table, **failed, proposed=Jsonb({"c1": STRANGE}))
    conn.execute(
        "INSERT INTO event (tenant_id, name, data, created_at) VALUES (%s, %s, %s, now())",
        [tenant.id, STRANGE, Jsonb({STRANGE: STRANGE})],
    )
    return table


def _commands(on_api, table):
    for kind in ("runs", "actions", "changes", "events"):
        yield kind, "list"
        yield kind, "show", on_api.told(kind)[0]["id"]
    yield "tables", "list"
    yield "tables", "show", table.id
    yield "preview", table.id
    yield "tables", "show", STRANGE + "?"


@pytest.fixture(params=[(), ("--json",)], ids=["for people", "for scripts"])
def form(request):
    return request.param


def test_no_answer_steers_the_terminal(on_api, table, form):
    for command in _commands(on_api, table):
        told = on_api.run(*command, *form).output

        strange = {one for one in told if not one.isprintable()} - {"\n", "　"}
        assert (command, strange) == (command, set())
        assert "案件　x" in told or command[0] == "preview", command


def test_what_steers_is_written_out_for_people(on_api, table):
    failed = on_api.run("runs", "show", on_api.told("runs")[0]["id"])
    unknown = on_api.run("tables", "show", STRANGE + "?")

    assert f"answered 500: {WRITTEN_OUT}" in failed.stdout
    assert unknown.stderr == f"Error: there is no table '{WRITTEN_OUT}?'\n"


def test_scripts_get_what_was_written(on_api, table):
    told = on_api.run("runs", "--json").stdout

    assert json.loads(told)[0]["error"] == f"answered 500: {STRANGE}"
    assert r"\u001b[2J\r\u007f\u009b31m\u202e案件　x" in told
