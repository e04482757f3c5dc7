import re

import pytest

from tests.architecture.source import ROOT, files, modules, names_called, strings

# The statements of these announce, claim, renew, finish, sweep, or tell who lives and what is
# stale: they read the clock in the step that acts on it. Any other has ``now`` as a parameter.
_READ_THE_CLOCK = {
    "shared/db/clock.py",
    "shared/queries/announcements.py",
    "shared/queries/approved_changes.py",
    "shared/queries/claims.py",
    "shared/queries/scheduled_actions.py",
    "shared/queries/tracking.py",
    "shared/queries/trigger_runs.py",
    "shared/queries/work.py",
    "shared/queries/workers.py",
}
_LIFECYCLE = "shared/lifecycle.py"

_STANDS_STILL = re.compile(
    r"\b(?i:now\(\)|(transaction|statement)_timestamp\b)"
    r"|\b(CURRENT_(TIMESTAMP|TIME|DATE)|LOCALTIME(STAMP)?)\b"
)
_WALL_CLOCK = re.compile(
    r"(datetime\.)?(datetime\.(now|utcnow|today)|date\.today)"
    r"|time\.(time|time_ns|gmtime|localtime|ctime|strftime)"
)
_DURATIONS = re.compile(
    r"time\.(monotonic|perf_counter|process_time|thread_time)(_ns)?|time\.sleep"
)


def _sql_texts():
    for path in files(".sql"):
        if path.parts[0] == "migrations":
            yield str(path), (ROOT / path).read_text("utf-8")
    for path in modules("services", "shared"):
        for line, text in strings(path):
            yield f"{path}:{line}", text


def _called(pattern, *packages):
    return {
        f"{path}:{line}": str(path)
        for path in modules(*packages)
        for line, name in names_called(path)
        if pattern.fullmatch(name)
    }


def test_no_statement_uses_the_time_at_which_its_transaction_began():
    assert [where for where, text in _sql_texts() if _STANDS_STILL.search(text)] == []


def test_the_servers_clock_is_read_only_where_listed():
    readers = {
        str(path)
        for path in modules("services", "shared")
        if any("clock_timestamp" in text for _, text in strings(path))
    }

    assert readers <= _READ_THE_CLOCK
    assert "shared/db/clock.py" in readers


def test_only_the_comparison_of_clocks_asks_this_machines_wall_clock():
    found = _called(_WALL_CLOCK, "services", "shared")

    assert set(found.values()) == {"shared/observability/host_clock.py"}


def test_durations_come_from_the_lifecycle_module():
    found = _called(_DURATIONS, "services", "shared")

    assert set(found.values()) == {_LIFECYCLE}


def test_tests_do_not_sleep():
    assert _called(re.compile(r"time\.sleep"), "tests") == {}


@pytest.mark.parametrize(
    ("pattern", "bad", "good"),
    [
        (_STANDS_STILL, ["SELECT now()", "DEFAULT CURRENT_TIMESTAMP"], ["known()", "%(now)s"]),
        (_WALL_CLOCK, ["datetime.datetime.now", "time.time"], ["self._time.now"]),
    ],
)
def test_the_patterns_find_what_they_are_for(pattern, bad, good):
    assert all(pattern.search(text) for text in bad)
    assert not any(pattern.search(text) for text in good)
