"""The slots of rosters: a table of cases, and a walk over every minute where clocks were moved."""

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.schedule.slots import Grid, Horizon, RosterLine, first_stretch
from shared.schedule.zones import find_zone
from tests.unit.schedule.case_tables import an_instant, read_cases
from tests.unit.schedule.minute_walk import DAY, MINUTE, MinuteWalk, clock_changes

# A zone and a year in which its clock was moved; Taipei's is long ago, so a day in it is asked for.
PLACES = [
    ("Australia/Lord_Howe", 2026),
    ("Pacific/Apia", 2011),
    ("Europe/Dublin", 2026),
    ("America/New_York", 2026),
    ("America/Sao_Paulo", 2018),
    ("Asia/Taipei", 1979),
    ("Africa/Casablanca", 2026),
    ("America/Nuuk", 2026),
]


def minutes(text):
    hours, rest = text.split(":")
    return int(hours) * 60 + int(rest)


def a_line(*, resource="a", **of):
    start, end = minutes(of.pop("from")), minutes(of.pop("to"))
    days = {
        name: date.fromisoformat(of[name])
        for name in ("day", "valid_from", "valid_to")
        if name in of
    }
    return RosterLine(
        resource=resource,
        key=resource,
        weekdays=frozenset(of.get("weekdays", ())),
        start_minute=start,
        end_minute=end if end > start else end + 1440,
        **days,
    )


def all_slots(lines, grid, horizon, *, size):
    """The slots of all stretches, told as text."""
    told = []
    while horizon.after < horizon.until:
        stretch = first_stretch(lines, grid, horizon, size=size)
        assert stretch.until > horizon.after
        told += [
            f"{slot.start:%Y-%m-%d %H:%M}-{slot.end:%H:%M} {slot.resource}"
            for slot in stretch.slots
            if horizon.after <= slot.start < stretch.until
        ]
        horizon = horizon.from_wall(stretch.until)
    return told


@pytest.mark.parametrize("case", read_cases("slots"))
@pytest.mark.parametrize("size", [1, 1000])
def test_slots_of_the_cases(case, size):
    zone = find_zone(case["zone"])
    grid = Grid(
        slot_minutes=case["slot_minutes"], gap_minutes=case.get("gap_minutes", 0), zone=zone
    )
    horizon = Horizon.of(an_instant(case["now"]), days=case["days"], zone=zone)
    lines = [a_line(**line) for line in case["lines"]]

    assert all_slots(lines, grid, horizon, size=size) == case["slots"]


walks = cache(MinuteWalk.around)
changes_of = cache(clock_changes)
times = st.integers(0, 1439)


@st.composite
def lines_near(draw, day):
    start, length = draw(times), draw(st.integers(1, 1440))
    days = st.integers(-4, 4).map(lambda n: day + n * DAY)
    on_a_day = draw(st.booleans())
    return RosterLine(
        resource=(resource := draw(st.sampled_from("ab"))),
        key=resource,
        weekdays=frozenset() if on_a_day else draw(st.frozensets(st.integers(0, 6), min_size=1)),
        day=draw(days) if on_a_day else None,
        start_minute=start,
        end_minute=start + length,
        valid_from=draw(st.none() | days),
        valid_to=draw(st.none() | days),
    )


@st.composite
def rosters(draw, zone, year):
    change = draw(st.sampled_from(changes_of(zone, year)))
    walk = walks(change, zone, days=6)
    now = change + timedelta(seconds=draw(st.integers(-2 * 86400, 4 * 3600)))
    today = now.astimezone(ZoneInfo(zone)).date()
    lines = draw(st.lists(lines_near(today), min_size=1, max_size=4))
    slot = draw(st.integers(5, 90) | st.just(1440))
    return walk, now, lines, slot, draw(st.integers(0, 40)), draw(st.integers(1, 3))


def slots_by_walking(walk, now, lines, slot, gap, days):
    """Lay each line minute by minute on what the clock showed, and take the first showing."""
    shown = {wall: instant for instant, wall in reversed(walk.minutes)}
    now_wall = max(wall for wall, instant in shown.items() if instant <= now)
    until = datetime.combine(now_wall.date(), time()) + days * DAY
    found = set()
    for line in lines:
        for n in range(-9, 10):
            day = now_wall.date() + n * DAY
            after = line.valid_from is None or line.valid_from <= day
            before = line.valid_to is None or day <= line.valid_to
            hits = day == line.day if line.day else (day.weekday() + 1) % 7 in line.weekdays
            if not (after and before and hits):
                continue
            start = datetime.combine(day, time()) + line.start_minute * MINUTE
            end = datetime.combine(day, time()) + line.end_minute * MINUTE
            while start + slot * MINUTE <= end:
                whole = all(start + k * MINUTE in shown for k in range(slot))
                if whole and start < until and shown[start] >= now:
                    found.add((start, line.resource, start + slot * MINUTE))
                start += (slot + gap) * MINUTE
    return sorted(found)


@pytest.mark.parametrize(("zone", "year"), PLACES)
def test_slots_are_those_of_a_walk_over_every_minute(zone, year):
    @settings(max_examples=30)
    @given(rosters(zone, year), st.sampled_from([3, 10_000]))
    def check(roster, size):
        walk, now, lines, slot, gap, days = roster
        grid = Grid(slot_minutes=slot, gap_minutes=gap, zone=find_zone(zone))
        horizon = Horizon.of(now, days=days, zone=grid.zone)

        expected = [
            f"{start:%Y-%m-%d %H:%M}-{end:%H:%M} {resource}"
            for start, resource, end in slots_by_walking(walk, now, lines, slot, gap, days)
        ]

        assert all_slots(lines, grid, horizon, size=size) == expected

    check()


def test_at_the_ends_of_time_there_is_no_horizon():
    zone = find_zone("Asia/Taipei")

    assert Horizon.of(datetime.max.replace(tzinfo=UTC), days=90, zone=zone) is None
    assert Horizon.of(datetime.min.replace(tzinfo=UTC), days=1, zone=zone) is not None
