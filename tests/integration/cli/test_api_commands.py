"""Commands that talk to the API, as the holder of a token."""

import pytest
from psycopg.types.json import Jsonb

from tests.builders_db import insert_run, insert_runs, insert_table
from tests.integration.cli.conftest import ADMIN_TOKEN, CommandLine

_RECEIPT = {
    "type": "notify",
    "ok": False,
    "detail": "nobody is there",
    "attempts": 1,
    "started_at": "2026-07-25T09:00:00Z",
    "finished_at": "2026-07-25T09:00:01Z",
    "transient": False,
}
_HOURLY = {
    "id": "trg_00000000000a",
    "name": "hourly",
    "enabled": True,
    "on": "schedule",
    "schedule": {"type": "interval", "every_seconds": 3600},
    "when": [],
    "actions": [{"type": "notify", "chatroom_id": "c", "message": "m"}],
}


@pytest.fixture
def table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="orders")


@pytest.fixture
def other_table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="cases")


def a_run(conn, table, **columns):
    return insert_run(conn, table, record_id=7, snapshot=Jsonb({}), **columns)


def ids(runs):
    return [run["id"] for run in runs]


def test_runs_of_all_tables_are_listed_the_newest_first(on_api, conn, table, other_table):
    made = [a_run(conn, one, status="done") for one in (table, other_table, table)]

    assert ids(on_api.told("runs")) == made[::-1]
    assert ids(on_api.told("runs", "orders")) == [made[2], made[0]]
    assert ids(on_api.told("runs", "list", other_table.id)) == [made[1]]
    assert ids(on_api.told("runs", "--limit", 2)) == [made[2], made[1]]


def test_runs_of_a_trigger_are_found_by_its_name(on_api, conn, tenant, other_table):
    table = insert_table(conn, tenant_id=tenant.id, name="orders", triggers=[_HOURLY])
    run = a_run(conn, table, trigger_id=_HOURLY["id"])
    a_run(conn, table, trigger_id="trg_0000000000ff")
    a_run(conn, other_table, trigger_id="trg_0000000000ff")

    assert ids(on_api.told("runs", "--trigger", "hourly")) == [run]
    assert ids(on_api.told("runs", "orders", "--trigger", "hourly")) == [run]
    for arguments, told in (
        ((), "no table has a trigger 'daily'"),
        (("cases",), "table 'cases' has no trigger 'daily'"),
    ):
        refused = on_api.run("runs", *arguments, "--trigger", "daily")
        assert (refused.exit_code, told in refused.output) == (1, True)


def test_an_id_of_a_trigger_is_that_of_each_table_which_a_bundle_brought_it_to(
    on_api, conn, tenant
):
    tables = [
        insert_table(conn, tenant_id=tenant.id, name=name, triggers=[_HOURLY])
        for name in ("orders", "cases", "copies")
    ]
    orders, cases, _ = (a_run(conn, one, trigger_id=_HOURLY["id"]) for one in tables)
    conn.execute("UPDATE custom_table SET triggers = NULL WHERE name = 'copies'")

    assert ids(on_api.told("runs", "orders", "--trigger", _HOURLY["id"])) == [orders]
    assert len(on_api.told("runs", "--trigger", _HOURLY["id"])) == 3
    named = on_api.run("runs", "--trigger", "hourly")
    assert (named.exit_code, "several triggers are named 'hourly'" in named.output) == (1, True)
    assert ids(on_api.told("runs", "cases", "--trigger", "hourly")) == [cases]


def test_runs_are_filtered(on_api, conn, table):
    pending, done, failed = (
        a_run(conn, table, status=status) for status in ("pending", "done", "failed")
    )
    other = insert_run(conn, table, status="done", record_id=8, trigger_id="trg_0000000000ff")

    assert ids(on_api.told("runs", "--status", "pending")) == [pending]
    assert ids(on_api.told("runs", "--stuck")) == [failed]
    assert ids(on_api.told("runs", "--record", 7)) == [failed, done, pending]
    assert ids(on_api.told("runs", "--trigger", "trg_0000000000ff")) == [other]


def test_a_list_longer_than_a_page_is_fetched_page_by_page(on_api, conn, table):
    made = [a_run(conn, table) for _ in range(150)]

    assert ids(on_api.told("runs", "--limit", 130)) == made[:19:-1]


def test_a_run_is_shown_with_its_receipts(on_api, conn, table, other_table):
    run = a_run(conn, table, status="failed", action_results=Jsonb([_RECEIPT]))

    assert on_api.told("runs", "show", run)["action_results"][0]["detail"] == "nobody is there"
    shown = on_api.run("runs", "show", run, "--table", "orders")
    assert "nobody is there" in shown.stdout
    assert "it failed" in shown.stdout
    assert on_api.run("runs", "show", run, "--table", "cases").exit_code == 1


def test_people_get_a_table(on_api, conn, table):
    run = a_run(conn, table, status="failed", action_results=Jsonb([_RECEIPT]))

    lines = on_api.run("runs").stdout.splitlines()

    assert lines[0].split()[:3] == ["run", "table", "kind"]
    assert lines[1].split()[:3] == [str(run), "orders", "record_created"]
    assert lines[1].rstrip().endswith("it failed")
    assert on_api.run("runs", "--status", "running").stdout == "no runs\n"


def test_all_pending_runs_of_a_table_are_cancelled(on_api, conn, table, other_table, monkeypatch):
    other = insert_run(conn, other_table)
    pending = insert_runs(conn, table, count=3)
    insert_run(conn, table, status="done")

    monkeypatch.setattr("shared.usecases.manage_work.MAX_CANCELLED", 2)
    everything = ("runs", "cancel", "--all", "--table", table.id)

    assert on_api.told(*everything) == {"cancelled": len(pending)}
    assert ids(on_api.told("runs", "--status", "pending")) == [other]
    assert on_api.run(*everything).stdout == "cancelled  0\n"
    assert on_api.run("runs", "cancel", "--all").exit_code == 2


def test_runs_that_are_cancelled_before_it_fails_are_told(on_api, conn, table, monkeypatch):
    last = insert_runs(conn, table, count=3)[-1]
    conn.execute(f"ALTER TABLE trigger_run ADD CHECK (id <> {last} OR status = 'pending')")
    monkeypatch.setattr("shared.usecases.manage_work.MAX_CANCELLED", 2)

    done = on_api.run("runs", "cancel", "--all", "--table", table.id)

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("2 runs are cancelled so far\nError: ")
    assert ids(on_api.told("runs", "--status", "pending")) == [last]


def test_runs_are_retried_and_cancelled(on_api, conn, table):
    first, second = (a_run(conn, table, status="failed") for _ in range(2))

    [retried] = on_api.told("runs", "retry", first)
    assert (retried["status"], retried["attempts"]) == ("pending", 0)
    [cancelled] = on_api.told("runs", "cancel", first)
    assert (cancelled["status"], cancelled["error"]) == ("failed", "cancelled")
    assert on_api.told("runs", "retry", "--all", "--table", "orders")["retried"] == 1
    assert ids(on_api.told("runs", "--status", "pending")) == [second]


def test_what_the_api_refuses_is_told_in_its_words(on_api, conn, table):
    run = a_run(conn, table, status="done")

    done = on_api.run("runs", "retry", run)

    message = "run is done; only failed/pending (or stale-running) runs can be retried"
    assert (done.exit_code, done.stderr) == (1, f"Error: {message}\n")


def test_retrying_everything_needs_a_table(on_api):
    assert on_api.run("runs", "retry", "--all").exit_code == 2
    assert on_api.run("runs", "retry").exit_code == 2


def test_preview_tells_what_the_next_tick_would_do_and_why(on_api, conn, table):
    conn.execute("UPDATE custom_table SET triggers = %s", [Jsonb([_HOURLY])])

    assert on_api.told("preview", "orders")["triggers"][0]["error_codes"] == [
        "schedule_state_missing"
    ]
    told = on_api.run("preview", table.id).stdout
    assert "schedule_state_missing" in told
    assert "hourly" in told


def test_tick_can_be_asked_of_the_api(api_url, conn):
    insert_table(conn, triggers=[_HOURLY])
    operator = CommandLine(ADMIN_TOKEN=ADMIN_TOKEN)

    assert operator.told("tick", "--api", api_url)["tables_scanned"] == 1
    assert CommandLine().run("tick", "--api", api_url).exit_code == 2
    refused = CommandLine(ADMIN_TOKEN="wrong").run("tick", "--api", api_url)
    assert (refused.exit_code, refused.stderr) == (
        1,
        "Error: BaseRoot access denied: Invalid X-ADMIN-TOKEN\n",
    )


def test_a_name_that_several_tables_have_is_refused_with_their_ids(on_api, conn, table, tenant):
    twin = insert_table(conn, tenant_id=tenant.id, name="orders")

    done = on_api.run("runs", "orders")

    assert done.exit_code == 1
    assert str(twin.id) in done.stderr
    assert str(table.id) in done.stderr


def test_tables_that_do_not_exist_and_missing_tokens_are_told_apart(on_api, api_url):
    assert on_api.run("runs", "nothing").stderr == "Error: there is no table 'nothing'\n"
    assert CommandLine(DUEBOOK_API=api_url).run("runs").exit_code == 2
    stranger = CommandLine(DUEBOOK_API=api_url, DUEBOOK_TOKEN="dbk_unknown").run("runs")
    assert (stranger.exit_code, stranger.stderr) == (1, "Error: the API token is not known\n")


@pytest.mark.parametrize("token", ["dbk_any\r", "dbk_any\n", "dbk_äny"])
def test_a_token_that_no_header_can_have_is_refused(api_url, token):
    done = CommandLine(DUEBOOK_API=api_url, DUEBOOK_TOKEN=token).run("runs")

    assert done.exit_code == 2
    assert "DUEBOOK_TOKEN is no token" in done.stderr


def test_a_token_may_be_in_a_file_as_a_pod_has_it(api_url, tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{ADMIN_TOKEN}\n")

    done = CommandLine(ADMIN_TOKEN_FILE=str(file)).run("tenants", "--api", api_url)
    absent = CommandLine(ADMIN_TOKEN_FILE=str(tmp_path / "none")).run("tenants", "--api", api_url)

    assert done.exit_code == 0, done.output
    assert absent.exit_code == 2
    assert "the file that ADMIN_TOKEN_FILE names cannot be read" in absent.stderr


def test_a_token_in_a_file_comes_first_as_for_every_setting(api_url, tmp_path):
    file = tmp_path / "token"
    file.write_text(ADMIN_TOKEN)

    both = CommandLine(ADMIN_TOKEN_FILE=str(file), ADMIN_TOKEN="of another API")

    assert both.told("tenants", "--api", api_url) == []


def test_an_api_that_is_not_there_has_an_exit_code_of_its_own(unused_port):
    url = f"http://127.0.0.1:{unused_port}"

    done = CommandLine(DUEBOOK_API=url, DUEBOOK_TOKEN="dbk_any").run("runs")

    assert done.exit_code == 3
    assert done.stderr.startswith(f"Error: no answer from {url}: Failed to establish")
    assert done.stderr.count("\n") == 1
