"""Commands about events, as the holder of a moderator's token."""

from datetime import timedelta

import pytest

from shared.tracking.click_store import PostgresClicks
from shared.usecases.take_event import NewEvent, take_event
from shared.usecases.tenant_limits import WaitingLimit
from tests.builders_db import NOW
from tests.builders_delayed import insert_line_user
from tests.builders_rules import NOTIFY, insert_rule


@pytest.fixture
def take(conn, tenant):
    """Takes an event and returns it with what it led to."""

    def take(name, *, contact=None, minutes=0):
        event = NewEvent(
            tenant_id=tenant.id, name=name, line_user_id=contact, data={"sum": 5}, key=None
        )
        clicks, now = PostgresClicks(), NOW + timedelta(minutes=minutes)
        return take_event(conn, event, clicks=clicks, waiting=WaitingLimit(), now=now).event

    return take


def ids(events):
    return [event["id"] for event in events]


def test_events_are_listed_the_newest_first_over_all_pages(on_api, take):
    made = [take("paid", minutes=minute).id for minute in range(102)]

    assert ids(on_api.told("events", "--limit", 102)) == made[::-1]
    assert ids(on_api.told("events", "list", "--limit", 101)) == made[:0:-1]


def test_events_are_filtered(on_api, take):
    first, other, last = take("paid"), take("sent", minutes=1), take("paid", minutes=2)

    assert ids(on_api.told("events", "--name", "paid")) == [last.id, first.id]
    assert ids(on_api.told("events", "--from", "2026-07-25T09:01:00Z")) == [last.id, other.id]
    assert ids(on_api.told("events", "--to", "2026-07-25T09:01:00Z")) == [first.id]
    assert on_api.run("events", "--name", "unknown").stdout == "no events\n"


def test_an_event_is_shown_with_what_followed(on_api, conn, tenant, take):
    contact = insert_line_user(conn, tenant.id)
    rule = insert_rule(conn, tenant.id, event="paid", actions=[NOTIFY, NOTIFY])
    event = take("paid", contact=contact)
    kept, gone = event.action_ids
    conn.execute("DELETE FROM scheduled_action WHERE id = %s", [gone])

    [heading, line] = on_api.run("events").stdout.splitlines()
    shown = on_api.told("events", "show", event.id)
    people = on_api.run("events", "show", event.id).stdout

    assert heading.split()[:3] == ["event", "name", "contact"]
    assert line.split() == [
        *(str(event.id), "paid", str(contact), "2026-07-25T09:00:00Z", str(rule)),
        *(f"{kept},", str(gone)),
    ]
    assert (shown["data"], shown["scheduled_action_ids"]) == ({"sum": 5}, [kept, gone])
    assert [(one["id"], one["status"]) for one in shown["scheduled_actions"]] == [(kept, "pending")]
    assert people.splitlines()[-1].split()[:3] == [str(kept), str(rule), "notify"]


def test_an_event_that_is_not_there_is_told(on_api):
    done = on_api.run("events", "show", 7)

    assert done.exit_code == 1
    assert "event 7 does not exist" in done.output
