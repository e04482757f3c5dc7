"""What a save does with overdue values, and a save that only tells what it would lead to."""

import pytest

from tests.integration.api.callers import faults, problem
from tests.integration.api.test_triggers import CRON, DATE, INTERVAL, set_triggers, trigger

YEAR_2000 = "2000-01-01 00:00"


@pytest.fixture
def overdue(author, authored):
    """Return the address of a table with three overdue rows."""
    for _ in range(3):
        made = author.post(f"{authored}/records", json={"data": {"到期時間": YEAR_2000}})
        assert made.status_code == 201
    return authored


def _set(who, table, *triggers, query="", **options):
    return who.put(f"{table}/triggers?{query}", json={"triggers": list(triggers)}, **options)


def test_a_dry_run_tells_what_would_be_stored_and_what_follows_and_stores_nothing(author, overdue):
    before = author.get(f"{overdue}/triggers").json
    daily = {"type": "daily", "at": "01:30", "timezone": "UTC"}

    told = _set(author, overdue, trigger(DATE), trigger(daily), query="dry_run=true")

    assert told.status_code == 200
    assert [one.get("id") for one in told.json["triggers"]] == [None, None]
    assert told.json["triggers"][1]["schedule"] == {"type": "daily", "at": "01:30"}
    dates, clock = told.json["consequences"]
    assert dates == {
        "trigger_id": None,
        "kind": "date_column_reached",
        "fires_next_tick": 3,
        "oldest_due_at": "2000-01-01T00:00:00Z",
        "fires_within_24_hours": 0,
        "consumed": 0,
        "held_back": 0,
        "truncated": False,
        "first_windows": [],
    }
    assert (clock["kind"], len(clock["first_windows"])) == ("daily", 3)
    assert author.get(f"{overdue}/triggers").json == before
    assert "consequences" not in _set(author, overdue, trigger(DATE)).json


@pytest.mark.parametrize(
    ("query", "expected"),
    [("on_existing=consume", (0, 3, 0)), ("on_existing=drip&per_minute=2", (2, 0, 1))],
)
def test_a_dry_run_tells_of_the_choice_for_overdue_values(author, overdue, query, expected):
    told = _set(author, overdue, trigger(DATE), query=f"dry_run=true&{query}")

    (dates,) = told.json["consequences"]
    assert (dates["fires_next_tick"], dates["consumed"], dates["held_back"]) == expected
    assert _set(author, overdue, trigger(DATE), query=query).status_code == 200
    (arm,) = author.get(f"{overdue}/triggers/schedule-preview").json["triggers"]
    assert (arm["due_now"], len(arm["warnings"])) == (0, 1)


def test_a_dry_run_is_checked_like_a_save(author, overdue):
    stale = _set(author, overdue, query="dry_run=true", headers={"If-Match": '"99"'})
    invalid = _set(author, overdue, trigger({**CRON, "x": 1}), query="dry_run=true")

    assert problem(stale)[:2] == (412, "stale_version")
    assert invalid.status_code == 400
    assert faults(invalid) == faults(set_triggers(author, overdue, trigger({**CRON, "x": 1})))


def test_a_choice_that_is_none_is_refused(author, overdue):
    for query in (
        "on_existing=drip",
        "on_existing=drip&per_minute=0",
        "on_existing=drip&per_minute=100001",
        "on_existing=drip&per_minute=true",
        "on_existing=consume&per_minute=5",
        "per_minute=5",
        "on_existing=skip",
        "dry_run=1",
    ):
        assert _set(author, overdue, trigger(DATE), query=query).status_code == 400, query

    assert author.get(f"{overdue}/triggers").json["triggers"] == []


def test_a_consumption_under_way_is_a_conflict_for_a_dry_run_too(author, overdue):
    stored = _set(author, overdue, trigger(DATE), query="on_existing=consume").json["triggers"]
    edited = {**stored[0], "schedule": {**DATE, "offset_minutes": 5}}

    for query in ("", "dry_run=true"):
        refused = _set(author, overdue, edited, trigger(INTERVAL), query=query)
        assert problem(refused)[:2] == (409, "values_being_consumed")
