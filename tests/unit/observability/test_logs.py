import json
import subprocess
import sys

# Logging is set up once in a process, so each case has a process of its own.
_PROGRAM = """
import logging, sys
import structlog
from shared.observability.logs import configure_logging
from shared.settings import Secret
configure_logging(service="worker", log_format=sys.argv[1], level="INFO")
log = structlog.get_logger()
exec(sys.argv[2])
"""


def _said(code, log_format="json"):
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, log_format, code],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == ""
    return done.stderr


def test_an_event_is_one_line_of_json_with_its_context():
    said = _said(
        'structlog.contextvars.bind_contextvars(run=7); log.info("run_finished", status="done")'
    )

    line = json.loads(said)
    assert line.pop("timestamp").endswith("Z")
    assert line == {
        "event": "run_finished",
        "level": "info",
        "run": 7,
        "service": "worker",
        "status": "done",
    }


def test_a_librarys_line_has_the_same_form():
    line = json.loads(_said('logging.getLogger("psycopg.pool").warning("lost %s", "it")'))

    assert line["event"] == "lost it"
    assert (line["level"], line["service"]) == ("warning", "worker")
    assert line["logger"] == "psycopg.pool"


def test_an_error_carries_its_trace_and_no_local_variables():
    code = (
        "def f():\n    key = 'hunter' + '2'\n    1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n"
    )
    for log_format in ("json", "console"):
        said = _said(f"{code}    log.exception('action_failed')", log_format)

        assert "ZeroDivisionError" in said
        assert "hunter2" not in said


def test_a_secret_stays_hidden():
    assert "hunter2" not in _said('log.info("connected", url=Secret("hunter2"))')


def test_what_is_below_the_level_is_not_said():
    assert _said('log.debug("looked")') == ""
    assert _said('logging.getLogger("pika").error("a connection was lost")') == ""


def test_the_console_form_is_for_people():
    assert "run_finished" in _said('log.info("run_finished", run=7)', "console")
