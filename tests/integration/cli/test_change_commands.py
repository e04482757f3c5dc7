"""Commands about staged changes, as the holder of a moderator's token."""

import pytest

from tests.builders_db import insert_records, insert_table
from tests.builders_staged import insert_change, insert_update


@pytest.fixture
def table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="orders", approval="required")


@pytest.fixture
def other_table(conn, tenant):
    return insert_table(conn, tenant_id=tenant.id, name="cases")


def ids(changes):
    return [change["id"] for change in changes]


def test_changes_of_all_tables_are_listed_and_filtered(on_api, conn, table, other_table):
    record = insert_records(conn, table, [{}])[0]
    first, second = insert_change(conn, table), insert_change(conn, other_table, run_id=9)
    third = insert_update(conn, table, record, status="failed")

    assert ids(on_api.told("changes")) == [third, second, first]
    assert ids(on_api.told("changes", "orders")) == [third, first]
    assert ids(on_api.told("changes", "list", "--limit", 1)) == [third]
    assert ids(on_api.told("changes", "--status", "pending")) == [second, first]
    assert ids(on_api.told("changes", "--operation", "update")) == [third]
    assert ids(on_api.told("changes", "--record", record.id)) == [third]
    assert ids(on_api.told("changes", "--run", 9)) == [second]


def test_for_people_a_list_tells_cells_and_what_came_of_it(on_api, conn, table):
    assert on_api.run("changes").output.strip() == "no staged changes"
    insert_change(conn, table, status="failed", error="the table no longer exists")

    told = on_api.run("changes").output

    for text in ("orders", "create", "proposed", "failed", "the table no longer exists"):
        assert text in told


def test_a_change_is_shown_with_what_was_there(on_api, conn, table):
    record = insert_records(conn, table, [{"c1": "before"}])[0]
    change_id = insert_update(conn, table, record, cells={"c1": "after"})

    told = on_api.run("changes", "show", change_id).output
    shown = on_api.told("changes", "show", change_id, "--table", "orders")

    assert "before" in told
    assert "after" in told
    assert (shown["base"], shown["proposed"]) == ({"title": "before"}, {"title": "after"})


def test_changes_are_reviewed(on_api, conn, table):
    first, second, third = (insert_change(conn, table) for _ in range(3))

    approved = on_api.told("changes", "approve", first, second, "--reason", "checked")
    rejected = on_api.told("changes", "reject", third)

    assert [(one["status"], one["reason"]) for one in approved] == [("approved", "checked")] * 2
    assert [one["status"] for one in rejected] == ["rejected"]
    again = on_api.run("changes", "reject", first)
    assert again.exit_code == 1
    assert f"staged change {first} is approved; only pending ones can be rejected" in again.output


def test_all_changes_of_a_table_are_reviewed(on_api, conn, table, other_table):
    for _ in range(3):
        insert_change(conn, table)
    left = insert_change(conn, other_table)

    counts = on_api.told("changes", "approve", "--all", "--table", "orders")

    assert counts == {"reviewed": 3, "more": False}
    assert ids(on_api.told("changes", "--status", "pending")) == [left]


@pytest.mark.parametrize("given", [[], ["--all"], ["1", "--all", "--table", "orders"]])
def test_what_is_meant_has_to_be_said(on_api, given):
    assert on_api.run("changes", "approve", *given).exit_code == 2


def test_a_change_that_is_nowhere_is_told(on_api, table):
    done = on_api.run("changes", "show", 7)

    assert done.exit_code == 1
    assert "there is no staged change 7" in done.output
