"""Real input: three thousand departures of 2013, all of them long due."""

from uuid import uuid4

from tests.e2e.flights import COLUMNS, IMPORT, an_hour_before_departure, count, rows
from tests.e2e.installation import Workspace, notify, scheduled

_RUNS = "SELECT kind, status, count(*) FROM trigger_run GROUP BY kind, status ORDER BY kind"
_COUNT_RECORDS = "SELECT count(*) FROM record WHERE table_id = %s"
_MESSAGES = "SELECT message FROM chat_message WHERE chatroom_id = %s ORDER BY message"


def test_as_many_runs_fire_as_the_file_has_flights_of_the_carrier(
    running, workspace, conn, make_cron_due
):
    chatroom = str(uuid4())
    table = workspace.make_table("flights", **COLUMNS)
    workspace.set_triggers(
        table,
        an_hour_before_departure(
            notify("$row.carrier $row.flight", chatroom=chatroom), carriers=["UA"]
        ),
        scheduled({"type": "interval", "every_seconds": 86_400}, notify("i", chatroom=table)),
        scheduled({"type": "daily", "at": "00:00"}, notify("d", chatroom=table)),
        scheduled({"type": "cron", "expression": "* * * * *"}, notify("c", chatroom=table)),
    )
    make_cron_due()

    imported = running.told("records", "import", "flights", *IMPORT, "--chunk", 1000)
    expected = count(carriers=["UA"])

    def drained():
        found = {kind: (status, n) for kind, status, n in conn.execute(_RUNS)}
        return len(found) == 4 and found["date_column_reached"] == ("done", expected)

    running.wait(drained)
    runs = {kind: (status, n) for kind, status, n in conn.execute(_RUNS)}
    assert imported == {"created": count(), "refused": 0, "refused_lines": []}
    for kind in ("interval", "daily", "cron"):
        status, number = runs[kind]
        # A minute, or a day, may begin while we look.
        assert (status, number) in (("done", 1), ("done", 2)), kind
    told = [message for (message,) in conn.execute(_MESSAGES, [chatroom])]
    assert told == sorted(f"UA {row['flight']}" for row in rows() if row["carrier"] == "UA")
    assert running.verify()["ok"]


def test_an_import_that_is_started_again_stores_nothing_twice(install, conn):
    installation = install(None)
    installation.start("api")
    installation.wait(installation.answers)
    table = Workspace(installation).make_table("flights", **COLUMNS)

    def imported(*options):
        installation.told("records", "import", "flights", *IMPORT, "--chunk", 700, *options)
        return conn.execute(_COUNT_RECORDS, [table]).fetchone()[0]

    assert imported() == count()
    assert imported() == count()
    assert imported("--again") == 2 * count()
