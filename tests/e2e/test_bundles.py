"""Configuration as code, on real departures: from one tenant into another, and back a change."""

import json

import pytest

from tests.e2e.flights import COLUMNS, IMPORT, an_hour_before_departure, count
from tests.e2e.installation import Workspace, notify, scheduled

CHATROOM = "c0000000-0000-4000-8000-000000000001"
LATE = {"type": "create_record", "data": {"flight": "$row.flight", "minutes": "$row.delay"}}


@pytest.fixture
def installation(install):
    """An API, without anybody who would fire something."""
    installation = install(None)
    installation.start("api")
    installation.wait(installation.answers)
    return installation


class Author:
    """A moderator of a tenant of its own, on the command line."""

    def __init__(self, installation):
        self._installation = installation
        self.workspace = Workspace(installation)
        self._token = installation.environment["DUEBOOK_TOKEN"]

    def run(self, *arguments):
        self._installation.environment["DUEBOOK_TOKEN"] = self._token
        return self._installation.duebook(*arguments)

    def told(self, *arguments):
        done = self.run(*arguments, "--json")
        assert done.returncode in (0, 2), done.stderr
        return json.loads(done.stdout)


def actions(plan):
    return {item["action"] for item in plan["items"]}


def test_definitions_go_from_one_tenant_into_another_and_a_rename_follows(installation, tmp_path):
    ours, theirs = Author(installation), Author(installation)
    tables = ours.workspace
    flights = tables.make_table("flights", **COLUMNS)
    late = tables.make_table("late", flight="number", minutes="number")
    record_late = {**LATE, "table_id": late}
    record_late["data"] = {**LATE["data"], "minutes": "$row.departure_delay_minutes"}
    tables.set_triggers(
        flights,
        an_hour_before_departure(
            notify("$row.carrier $row.flight", chatroom=CHATROOM), record_late, carriers=["UA"]
        ),
        scheduled({"type": "daily", "at": "05:00"}, notify("good morning", chatroom=CHATROOM)),
    )
    for author in (ours, theirs):
        if author is theirs:  # its own flights, before anybody defines anything
            author.workspace.make_table("flights", **COLUMNS)
        author.told("records", "import", "flights", *IMPORT)
    exported = tmp_path / "flights.jsonl"

    ours.run("export", "--output", exported)
    planned = theirs.told("plan", exported)
    theirs.told("apply", exported, "--yes")

    assert planned["counts"] == {"create": 3, "update": 0, "delete": 0, "noop": 1, "adopt": 0}
    consequence = next(
        item["consequence"]
        for item in planned["items"]
        if item["consequence"] and not item["consequence"]["first_windows"]
    )
    assert consequence["fires_next_tick"] == count(carriers=["UA"])
    assert consequence["oldest_due_at"] == "2013-01-01T04:15:00Z"
    assert actions(theirs.told("plan", exported)) == {"noop"}
    assert theirs.run("export").stdout == exported.read_text()

    columns = tables.call("GET", f"/tenant/custom-tables/tables/{flights}")["columns"]
    for column in columns:
        if column["name"] == "departure_delay_minutes":
            column["name"] = "late_by"
    tables.call("PATCH", f"/tenant/custom-tables/tables/{flights}", {"columns": columns})
    ours.run("export", "--output", exported)
    shown = theirs.run("plan", exported)

    assert shown.returncode == 2
    assert shown.stdout.splitlines() == [
        "~ table 'flights'  (line 1)",
        '    ~ /columns/6/name renamed: "departure_delay_minutes" → "late_by"',
        "",
        "Plan: 0 created, 1 updated, 0 deleted, 3 as they are.",
    ]
    theirs.told("apply", exported, "--yes")
    assert theirs.run("plan", exported).returncode == 0
    assert theirs.run("export").stdout == exported.read_text()
