import calendar
from datetime import UTC, datetime, timedelta

import pytest

from shared.schedule import anchor_for, due_window, parse_schedule, upcoming_windows, window_key
from shared.schedule.cron import SHAPES_RECUR_WITHIN_YEARS
from shared.schedule.windows import never_matches, next_window
from shared.schedule.zones import ZONE_NAMES
from tests.unit.schedule.case_tables import an_instant, read_cases

SAVED_AT = datetime(2026, 8, 27, 5, 0, 13, tzinfo=UTC)
HOUR = timedelta(hours=1)
BEGINNING = datetime(1, 1, 1, tzinfo=UTC)
END = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)


def a_cron(expression, timezone="UTC"):
    return parse_schedule({"type": "cron", "expression": expression, "timezone": timezone})


def a_daily(at, timezone="UTC"):
    return parse_schedule({"type": "daily", "at": at, "timezone": timezone})


def an_interval(every_seconds=3600):
    return parse_schedule({"type": "interval", "every_seconds": every_seconds})


@pytest.mark.parametrize("row", read_cases("due_windows"))
def test_the_latest_unconsumed_window_since_the_anchor_is_due(row):
    schedule = parse_schedule(row["schedule"])
    anchor = anchor_for(schedule, saved_at=an_instant(row["saved_at"]))

    assert anchor == an_instant(row["anchor"])
    for check in row["due"]:
        due = due_window(
            schedule,
            anchor=anchor,
            last_consumed=an_instant(check.get("last_consumed")),
            now=an_instant(check["now"]),
        )
        assert due == an_instant(check["due"]), check


@pytest.mark.parametrize("row", read_cases("cron_windows"))
def test_a_cron_expression_gives_these_windows(row):
    schedule = a_cron(row["expression"], row.get("timezone", "UTC"))
    expected = [an_instant(window) for window in row["windows"]]
    ends = not expected or expected[-1].year == 9999

    windows = upcoming_windows(
        schedule, after=an_instant(row["after"]), count=len(expected) + (1 if ends else 0)
    )

    assert windows == expected


@pytest.mark.parametrize("row", read_cases("clock_changes"))
def test_when_the_clock_is_moved_these_are_the_windows(row):
    schedule = parse_schedule(row["schedule"])

    windows = upcoming_windows(schedule, after=an_instant(row["after"]), count=len(row["windows"]))

    assert [
        [
            window.strftime("%Y-%m-%dT%H:%M:%SZ"),
            window.astimezone(schedule.zone).isoformat(timespec="minutes"),
            window_key(schedule, window),
        ]
        for window in windows
    ] == row["windows"]


def test_every_instant_that_comes_back_is_aware_utc():
    schedules = [an_interval(), a_daily("01:30", "Asia/Taipei"), a_cron("0 9 * * *", "Asia/Taipei")]

    for schedule in schedules:
        anchor = anchor_for(schedule, saved_at=SAVED_AT)
        due = due_window(
            schedule, anchor=anchor, last_consumed=None, now=SAVED_AT + timedelta(days=2)
        )
        upcoming = upcoming_windows(schedule, after=SAVED_AT, count=3)
        assert {at.tzinfo for at in (anchor, due, *upcoming)} == {UTC}


@pytest.mark.parametrize(
    "schedule",
    [
        an_interval(),
        a_cron("* * * * *"),
        parse_schedule({"type": "date_column_reached", "column": "due"}),
    ],
)
def test_an_anchor_is_the_save_cut_to_the_whole_second(schedule):
    assert anchor_for(schedule, saved_at=SAVED_AT.replace(microsecond=999_999)) == SAVED_AT


def test_upcoming_windows_of_an_interval_count_from_the_instant_asked_about():
    windows = upcoming_windows(an_interval(), after=SAVED_AT, count=2)

    assert windows == [SAVED_AT + HOUR, SAVED_AT + 2 * HOUR]


def test_upcoming_windows_of_an_interval_keep_a_given_anchor():
    windows = upcoming_windows(
        an_interval(), after=SAVED_AT + timedelta(minutes=90), count=2, anchor=SAVED_AT
    )

    assert windows == [SAVED_AT + 2 * HOUR, SAVED_AT + 3 * HOUR]


@pytest.mark.parametrize("count", [0, -1])
def test_no_windows_are_upcoming_when_none_are_asked_for(count):
    assert upcoming_windows(an_interval(), after=SAVED_AT, count=count) == []


def test_the_next_window_of_an_interval_may_be_the_anchor():
    assert next_window(an_interval(), anchor=SAVED_AT, after=SAVED_AT - HOUR) == SAVED_AT
    assert next_window(an_interval(), anchor=SAVED_AT, after=SAVED_AT) == SAVED_AT + HOUR


def test_the_next_window_of_daily_may_be_the_anchor():
    schedule = a_daily("00:00")
    midnight = datetime(2026, 8, 27, tzinfo=UTC)

    assert next_window(schedule, anchor=midnight, after=midnight - HOUR) == midnight
    assert next_window(schedule, anchor=midnight, after=midnight) == midnight + 24 * HOUR


def test_the_next_window_of_cron_is_never_the_anchor():
    schedule = a_cron("0 * * * *")
    noon = datetime(2026, 8, 27, 12, tzinfo=UTC)

    assert next_window(schedule, anchor=noon, after=noon - 5 * HOUR) == noon + HOUR


def test_an_interval_ends_with_time():
    end = datetime(9999, 12, 31, 23, 30, tzinfo=UTC)

    assert next_window(an_interval(), anchor=end, after=end) is None


def test_keys_of_interval_are_utc_minutes():
    assert window_key(an_interval(), SAVED_AT) == "20260827T0500"


def test_keys_of_cron_are_local_minutes():
    window = datetime(2026, 8, 27, 16, 30, tzinfo=UTC)

    assert window_key(a_cron("30 0 * * *", "Asia/Taipei"), window) == "20260828T0030"


def test_keys_of_daily_are_local_dates():
    window = datetime(2026, 8, 26, 17, 30, tzinfo=UTC)

    assert window_key(a_daily("01:30", "Asia/Taipei"), window) == "20260827"


def test_the_key_of_a_window_from_before_an_edit_is_its_local_date():
    window = datetime(2026, 3, 29, 1, 30, tzinfo=UTC)

    assert window_key(a_daily("12:00", "America/Nuuk"), window) == "20260329"


def test_keys_have_four_digits_of_year():
    window = datetime(33, 4, 3, 12, 0, tzinfo=UTC)

    assert window_key(a_daily("12:00"), window) == "00330403"
    assert window_key(a_cron("0 12 * * *"), window) == "00330403T1200"


def test_only_an_expression_without_a_day_never_matches():
    assert never_matches(a_cron("0 0 30 2 *"))
    assert never_matches(a_cron("0 0 31 4,6 *"))
    assert not never_matches(a_cron("0 0 29 2 *"))
    assert not never_matches(a_cron("0 0 30 2 1"))
    assert not never_matches(a_daily("00:00"))
    assert not never_matches(parse_schedule({"type": "date_column_reached", "column": "due"}))


def test_an_expression_that_matches_only_skipped_hours_has_no_next_window():
    # New York's clock goes forward over 02:30 on just this Sunday of March.
    schedule = a_cron("30 2 8-14 3 */7", "America/New_York")

    assert next_window(schedule, anchor=SAVED_AT, after=SAVED_AT) is None


def test_a_search_goes_on_over_years_in_which_every_match_was_skipped():
    # From 1987 to 2006 New York's clock went forward over 02:30 on the first Sunday of April.
    schedule = a_cron("30 2 1-7 4 */7", "America/New_York")
    after = datetime(1986, 5, 1, tzinfo=UTC)

    assert next_window(schedule, anchor=after, after=after) == datetime(
        2007, 4, 1, 6, 30, tzinfo=UTC
    )


def test_such_an_expression_had_windows_under_an_older_law():
    schedule = a_cron("30 2 8-14 3 */7", "America/New_York")

    windows = upcoming_windows(schedule, after=datetime(2004, 1, 1, tzinfo=UTC), count=5)

    assert [window.isoformat() for window in windows] == [
        "2004-03-14T07:30:00+00:00",
        "2005-03-13T07:30:00+00:00",
        "2006-03-12T07:30:00+00:00",
    ]


def test_every_shape_of_year_comes_again_within_the_stated_time():
    last_seen = {}
    for year in range(1, 10_000):
        shape = (calendar.isleap(year), datetime(year, 1, 1, tzinfo=UTC).weekday())
        assert year - last_seen.get(shape, year) <= SHAPES_RECUR_WITHIN_YEARS
        last_seen[shape] = year

    assert len(last_seen) == 14


@pytest.mark.parametrize("at", ["00:00", "02:30", "23:59"])
def test_no_zone_and_no_instant_raises(at):
    hour, minute = at.split(":")
    edges = [BEGINNING, BEGINNING + 7 * HOUR, END - 7 * HOUR, END]

    for name in ZONE_NAMES:
        for schedule in (a_daily(at, name), a_cron(f"{minute} {hour} * * *", name)):
            for now in edges:
                anchor = anchor_for(schedule, saved_at=now)
                due = due_window(schedule, anchor=BEGINNING, last_consumed=None, now=now)
                following = next_window(schedule, anchor=anchor, after=now)
                assert anchor <= now
                assert due is None or due <= now
                assert following is None or following > now
