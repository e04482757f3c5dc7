"""Traces that are off, which is the default: nothing happens, and nothing is loaded."""

import subprocess
import sys

import pytest

from shared.observability import tracing
from shared.observability.spans import NOTHING
from shared.observability.trace_ids import Row, place_of
from tests.builders import NOW, TENANT_ID

_ROW = Row(TENANT_ID, "trigger_run", 1)
_PROCESSES = ("services.worker.process", "services.scanner.process", "services.api.app")


def test_without_traces_there_is_one_span_that_does_nothing():
    with tracing.span("execute", under=place_of(_ROW), attributes={"a": 1}) as span:
        span.set({"b": 2})
        span.fail("Error")
        span.link(_ROW)
        span.made("fire", _ROW)
        span.forget_made()
        span.end()

    assert not tracing.is_on()
    assert span is tracing.current() is tracing.answering("GET", headers={}, attributes={})
    assert span is NOTHING
    assert (span.headers(), span.made_rows(), tracing.current_ids()) == ({}, {}, {})


def test_a_span_that_is_none_lets_errors_through():
    with pytest.raises(ValueError, match="ours"), tracing.span("execute"):
        raise ValueError("ours")


def test_without_traces_nothing_is_told_and_the_end_is_at_once():
    tracing.tell("run", of=place_of(_ROW), began_at=NOW, ended_at=NOW, attributes={})
    tracing.stop()

    assert not tracing.is_on()


@pytest.mark.parametrize("module", _PROCESSES)
def test_no_process_loads_opentelemetry_by_itself(module):
    program = (
        f"import sys, {module}\n"
        "loaded = [name for name in sys.modules if 'opentelemetry' in name]\n"
        "sys.exit(', '.join(loaded) or None)"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")
