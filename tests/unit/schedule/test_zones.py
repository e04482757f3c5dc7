import calendar
import zoneinfo
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise

import pytest

from shared.schedule.zones import ZONE_NAMES, find_zone


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        "asia/taipei",
        "Asia/taipei",
        "ASIA/TAIPEI",
        "Asia/Taipei ",
        " Asia/Taipei",
        "Asia/Taipei\n",
        "Asia/Taipei\0",
        "Asia/",
        "Asia",
        "/etc/localtime",
        "/usr/share/zoneinfo/Asia/Taipei",
        "../Asia/Taipei",
        "Asia/../Asia/Taipei",
        "./Asia/Taipei",
        "Asia//Taipei",
        "Asia\\Taipei",
        "localtime",
        "posixrules",
        "posix/Asia/Taipei",
        "right/Asia/Taipei",
        "Factory",
        "tzdata.zi",
        "zone.tab",
        "UTC0",
        "utc",
        "Z",
        "+08:00",
        "UTC+8",
        "EST5EDT4",
        "Asia/Taipei" * 1000,
        "\ud800",
    ],
)
def test_a_name_that_iana_does_not_spell_so_is_unknown(name):
    assert find_zone(name) is None


@pytest.mark.parametrize(
    "name", ["UTC", "Etc/UTC", "Asia/Taipei", "US/Eastern", "Asia/Calcutta", "EST5EDT", "GMT"]
)
def test_iana_names_and_legacy_links_are_known(name):
    assert find_zone(name) is not None


def test_the_same_name_gives_the_same_object():
    assert find_zone("Asia/Taipei") is find_zone("Asia/Taipei")


def test_the_machines_own_zone_files_are_not_asked():
    assert zoneinfo.TZPATH == ()


def test_every_known_name_can_be_loaded():
    instant = datetime(2026, 7, 25, tzinfo=UTC)

    offsets = [instant.astimezone(find_zone(name)).utcoffset() for name in ZONE_NAMES]

    assert len(offsets) > 590
    assert all(timedelta(hours=-12) <= offset <= timedelta(hours=14) for offset in offsets)


@pytest.mark.parametrize(
    ("name", "instant", "wall"),
    [
        ("America/New_York", "2026-03-08T06:59:59Z", "2026-03-08T01:59:59-05:00"),
        ("America/New_York", "2026-03-08T07:00:00Z", "2026-03-08T03:00:00-04:00"),
        # Paraguay stopped changing its clock in October 2024.
        ("America/Asuncion", "2025-07-01T12:00:00Z", "2025-07-01T09:00:00-03:00"),
        # Chile's Aysén region left the rest of the country in March 2025: a zone of its own.
        ("America/Coyhaique", "2025-07-01T12:00:00Z", "2025-07-01T09:00:00-03:00"),
    ],
)
def test_the_zone_data_is_recent(name, instant, wall):
    local = datetime.fromisoformat(instant).astimezone(find_zone(name))

    assert local.isoformat() == wall


def test_from_2100_on_years_of_one_shape_have_the_same_clock_changes():
    """The search for a cron window rests on it: no zone has a rule for single years any more."""
    shape = {(date(year, 1, 1).weekday(), calendar.isleap(year)) for year in (2105, 2111)}
    steps = [timedelta(hours=12 * n) for n in range(2 * 365)]

    for name in ZONE_NAMES:
        first, second = (
            [(start + step).astimezone(find_zone(name)).utcoffset() for step in steps]
            for start in (datetime(2105, 1, 1, tzinfo=UTC), datetime(2111, 1, 1, tzinfo=UTC))
        )
        assert first == second, name

    assert len(shape) == 1


def test_a_zone_that_left_out_a_date_moved_its_clock_by_just_one_day():
    """Daily rests on it: the target of a date that never was is that of the next date."""
    months = [datetime(1840, 1, 1, tzinfo=UTC) + timedelta(days=30 * n) for n in range(2500)]
    jumps = {}

    for name in ZONE_NAMES:
        offsets = [month.astimezone(find_zone(name)).utcoffset() for month in months]
        for before, after in pairwise(offsets):
            if after - before >= timedelta(hours=12):
                jumps[name] = after - before

    assert {"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Kiritimati"} <= jumps.keys()
    assert set(jumps.values()) == {timedelta(days=1)}
