import os
import signal
import subprocess
import sys
import threading

from shared.lifecycle import Stop, backoff_seconds, stop_on_signals, wait_until

# Python lets a signal wait that comes just before a wait begins: processes look once a second.
_SLEEPER = """
from shared.lifecycle import pause, stop_on_signals
stop = stop_on_signals()
print("ready", flush=True)
while not stop.wait(0.05):
    pass
print("asked", flush=True)
while True:
    pause(0.05)
"""


def test_a_wait_ends_at_once_when_a_stop_was_asked_for():
    stop = Stop()
    threading.Timer(0.01, stop.request).start()

    assert stop.wait(600)
    assert stop.requested
    assert stop.wait(600)


def test_a_wait_without_a_stop_answers_no():
    stop = Stop()

    assert not stop.wait(0)
    assert not stop.wait(0.001)
    assert not stop.requested


def test_asking_twice_is_asking_once():
    stop = Stop()

    stop.request()
    stop.request()

    assert os.read(stop.fileno(), 10) == b"\0"


def test_the_first_signal_asks_and_the_second_ends_the_process():
    process = subprocess.Popen([sys.executable, "-c", _SLEEPER], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"

    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == b"asked\n"
    process.send_signal(signal.SIGINT)

    process.communicate(timeout=30)
    assert process.returncode == 1


def test_a_signal_wakes_the_main_thread_that_waits():
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        stop = stop_on_signals()
        threading.Timer(0.01, os.kill, [os.getpid(), signal.SIGTERM]).start()

        assert stop.wait(600)
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])


def test_wait_until_tells_whether_the_condition_came_true():
    answers = iter([False, False, True])

    assert wait_until(lambda: next(answers), seconds=30, every_seconds=0)
    assert not wait_until(lambda: False, seconds=0)


def test_backoff_doubles_up_to_its_limit():
    pauses = [backoff_seconds(failures) for failures in (1, 2, 3, 4, 1000)]

    assert pauses == [0.1, 0.2, 0.4, 0.8, 30.0]
