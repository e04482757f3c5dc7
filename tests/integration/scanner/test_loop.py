"""The loop itself, with parts of the tests' own, on a real session that listens."""

import threading

import pytest

from services.scanner.loop import Loop, Part
from shared.db.connection import connect
from shared.db.listener import Listener
from shared.lifecycle import Stop
from shared.observability import metrics

# Longer than any test: what happens nevertheless was not waited for.
_LONG = 600.0


@pytest.fixture
def stop():
    return Stop()


@pytest.fixture
def run(database_url, stop):
    """Runs a loop over the given parts until the stop is requested; returns the loop."""

    def open_session():
        session = connect(database_url, application_name="scanner-listener")
        session.execute("LISTEN work")
        return session

    def run(*parts):
        loop = Loop(
            parts,
            connect=lambda: connect(database_url, application_name="scanner"),
            waiter=Listener(open_session),
        )
        loop.run(stop)
        return loop

    return run


def _counting(counts, name, *, pause, stop=None, until=None):
    """Return a step that counts itself and requests the stop at the ``until``-th."""

    def step(conn):
        counts[name] = counts.get(name, 0) + 1
        if counts[name] == until:
            stop.request()
        return pause

    return step


def test_a_part_runs_again_when_it_says_so_and_others_wait(run, stop):
    counts = {}
    busy = Part(name="busy", step=_counting(counts, "busy", pause=0.0, stop=stop, until=5))
    idle = Part(name="idle", step=_counting(counts, "idle", pause=_LONG))

    run(idle, busy)

    assert counts == {"idle": 1, "busy": 5}


def test_a_part_that_fails_harms_only_itself(run, stop):
    counts = {}
    before = metrics.TICK_FAILURES.labels("broken")._value.get()

    def fail(conn):
        with conn.transaction():
            conn.execute("SELECT 1 / 0")

    broken = Part(name="broken", step=fail)
    sound = Part(name="sound", step=_counting(counts, "sound", pause=0.0, stop=stop, until=3))

    run(broken, sound)

    assert counts == {"sound": 3}
    assert broken.failures >= 1
    assert metrics.TICK_FAILURES.labels("broken")._value.get() == before + broken.failures


def test_a_part_that_could_not_go_on_is_tried_again_soon(run, stop):
    counts = {}
    stalled = Part(
        name="stalled", step=_counting(counts, "stalled", pause=None, stop=stop, until=3)
    )

    run(stalled)

    assert counts == {"stalled": 3}
    assert stalled.stalls == 3


def test_a_notification_wakes_the_parts_that_want_to_be(run, stop, conn):
    counts = {}

    def notify(_conn):
        # The first pass after the session is open has been woken once already.
        if counts.get("woken", 0) == 2:
            conn.execute("NOTIFY work")
            return _LONG
        return 0.0

    notifier = Part(name="notifier", step=notify)
    woken = Part(
        name="woken",
        step=_counting(counts, "woken", pause=_LONG, stop=stop, until=3),
        woken=True,
    )
    asleep = Part(name="asleep", step=_counting(counts, "asleep", pause=_LONG))

    run(notifier, asleep, woken)

    assert counts == {"woken": 3, "asleep": 1}


@pytest.mark.parametrize("session", ["scanner", "scanner-listener"])
def test_a_lost_session_is_replaced(run, stop, conn, session):
    seen = []

    def step(scan_conn):
        seen.extend(scan_conn.execute("SELECT pg_backend_pid()").fetchone())
        if len(seen) == 3:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = %s",
                [session],
            )
        if len(set(seen)) == 2:
            stop.request()
        return 0.0

    loop = run(Part(name="part", step=step))

    assert len(set(seen)) == 2
    assert loop.silence() is None


def test_what_nobody_expected_begins_the_loop_anew(stop, database_url):
    counts = {}

    class Failing:
        def wait(self, seconds, *, wake):
            if counts["part"] == 1:
                raise ValueError("nobody expected that")
            return False

        def close(self):
            pass

    part = Part(name="part", step=_counting(counts, "part", pause=0.0, stop=stop, until=2))
    loop = Loop(
        [part], connect=lambda: connect(database_url, application_name="scanner"), waiter=Failing()
    )
    loop.run(stop)

    assert counts == {"part": 2}


def test_a_stop_ends_the_wait(run, stop):
    idle = Part(name="idle", step=lambda conn: _LONG)
    thread = threading.Thread(target=run, args=[idle])
    thread.start()

    stop.request()
    thread.join()

    assert not thread.is_alive()


def test_without_a_database_the_loop_tells_and_goes_on_until_it_is_stopped(stop):
    counts = {}
    loops = []

    def connect_in_vain():
        counts["tries"] = counts.get("tries", 0) + 1
        counts["fault"] = loops[0].fault()
        if counts["tries"] == 3:
            stop.request()
        return connect("postgresql://127.0.0.1:1/none", application_name="scanner")

    loop = Loop(
        [Part(name="idle", step=lambda conn: _LONG)],
        connect=connect_in_vain,
        waiter=Listener(connect_in_vain),
    )
    loops.append(loop)
    loop.run(stop)

    assert counts == {"tries": 3, "fault": "the database is away"}
