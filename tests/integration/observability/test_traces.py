"""What a collector is told, over HTTP, by a process of its own for each case."""

import json
import socket
import subprocess
import sys
from datetime import UTC, datetime
from uuid import UUID

import pytest

from shared.observability.trace_ids import Row, place_of, trace_id_of
from tests.integration.actions.receivers import Receiver
from tests.servers.collector import a_collector

_TENANT = UUID(int=7)
_RUN = Row(_TENANT, "trigger_run", 41)
_OTHER = Row(_TENANT, "trigger_run", 42)

_PROGRAM = """
import sys
from datetime import UTC, datetime, timedelta
from uuid import UUID
import structlog
from shared.observability import tracing
from shared.observability.logs import configure_logging
from shared.observability.trace_ids import Row, place_of
from shared.settings import read_settings

settings = read_settings("worker")
configure_logging(service="worker", log_format="json", level="INFO")
tracing.start(settings, service="worker")
run, other = (Row(UUID(int=7), "trigger_run", id) for id in (41, 42))
log = structlog.get_logger()
born = datetime(2026, 7, 25, 9, tzinfo=UTC)
exec(sys.argv[1])
tracing.stop()
"""


@pytest.fixture
def collector():
    with a_collector() as running:
        yield running


@pytest.fixture
def say(monkeypatch):
    """Runs a piece of program that makes spans, and returns the lines of its log."""
    monkeypatch.setenv("DATABASE_URL", "postgresql://nowhere/x")

    def run(code, url, **settings):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        for name, value in settings.items():
            monkeypatch.setenv(name, value)
        command = [sys.executable, "-c", _PROGRAM, code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return [json.loads(line) for line in done.stderr.splitlines()]

    return run


def test_the_end_of_a_process_sends_what_is_left(say, collector):
    say('with tracing.span("round", attributes={"duebook.count": 3}): pass', collector.url)

    [span] = collector.spans()
    assert (span.name, span.service, span.parent_id) == ("round", "duebook-worker", "")
    assert (span.attributes, span.failed) == ({"duebook.count": 3}, False)


def test_the_environment_names_the_service_and_what_a_collector_wants(say, collector):
    say(
        'with tracing.span("round"): pass',
        collector.url,
        OTEL_SERVICE_NAME="ours",
        OTEL_EXPORTER_OTLP_HEADERS="api-key=hunter2",
    )

    [span] = collector.spans()
    [request] = collector.receiver.requests
    assert (span.service, request.headers["api-key"]) == ("ours", "hunter2")


def test_a_span_that_stands_for_a_row_has_the_ids_of_its_key(say, collector):
    say(
        'tracing.tell("run", of=place_of(run), began_at=born, ended_at=born + timedelta(0, 5),'
        " attributes={}, links=[other])\n"
        'with tracing.span("execute", under=place_of(run)), tracing.span("action"): pass',
        collector.url,
    )

    told = collector.trace(trace_id_of(_RUN))
    root = told["run"]
    assert (root.parent_id, root.span_id) == ("", f"{place_of(_RUN).span_id:016x}")
    assert root.began_at == datetime(2026, 7, 25, 9, tzinfo=UTC).timestamp() * 10**9
    assert root.ended_at - root.began_at == 5 * 10**9
    assert root.links == [(trace_id_of(_OTHER), f"{place_of(_OTHER).span_id:016x}")]
    assert told["execute"].parent_id == root.span_id
    assert told["action"].parent_id == told["execute"].span_id


def test_what_was_made_and_its_maker_point_at_each_other(say, collector):
    say('with tracing.span("pass") as span: span.made("fire", run)', collector.url)

    [maker], [made] = collector.named("pass"), collector.named("fire")
    assert maker.trace_id != made.trace_id == trace_id_of(_RUN)
    assert made.parent_id == f"{place_of(_RUN).span_id:016x}"
    assert made.links == [(maker.trace_id, maker.span_id)]
    assert maker.links == [(made.trace_id, made.parent_id)]


@pytest.mark.parametrize(
    ("code", "names"),
    [
        ("span.forget_made(but={41})", ["fire", "pass"]),
        ("span.forget_made(but={42})", ["pass"]),
        ("1 / 0", ["pass"]),
    ],
)
def test_what_was_undone_is_not_told_as_made(say, collector, code, names):
    say(
        "import contextlib\n"
        'with contextlib.suppress(ZeroDivisionError), tracing.span("pass") as span:\n'
        '    span.made("fire", run)\n'
        f"    {code}",
        collector.url,
    )

    assert sorted(span.name for span in collector.spans()) == names


def test_a_failure_is_told_by_its_kind_and_never_by_its_text(say, collector):
    say(
        "import contextlib\n"
        'with contextlib.suppress(ValueError), tracing.span("action"):\n'
        '    raise ValueError("hunter2")',
        collector.url,
    )

    [span] = collector.spans()
    assert (span.failed, span.attributes) == (True, {"error.type": "ValueError"})
    assert all(b"hunter2" not in each.body for each in collector.receiver.requests)


def test_a_span_that_was_kept_open_is_told_at_its_end_or_never(say, collector):
    say(
        'with tracing.span("told", kept_open=True) as told, tracing.span("never", kept_open=True):'
        " pass\n"
        "told.end()",
        collector.url,
    )

    assert [span.name for span in collector.spans()] == ["told"]


def test_lines_of_the_log_within_a_span_name_it(say, collector):
    lines = say(
        'log.info("before")\nwith tracing.span("round"): log.info("within")\nlog.info("behind")',
        collector.url,
    )

    [span] = collector.spans()
    before, within, behind = lines
    assert (within["trace_id"], within["span_id"]) == (span.trace_id, span.span_id)
    assert "trace_id" not in before | behind


def test_an_answer_goes_on_with_the_callers_trace_and_a_call_tells_ours(say, collector):
    given = f"00-{'ab' * 16}-{'cd' * 8}-01"
    [line] = say(
        f'with tracing.answering("GET /", headers={{"traceparent": "{given}"}}, attributes={{}}):\n'
        '    with tracing.span("POST", kind="client") as span:\n'
        '        log.info("sent", headers=span.headers())',
        collector.url,
    )

    [answer], [call] = collector.named("GET /"), collector.named("POST")
    assert (answer.trace_id, answer.parent_id) == ("ab" * 16, "cd" * 8)
    assert line["headers"] == {"traceparent": f"00-{'ab' * 16}-{call.span_id}-01"}


_EACH_PARTS = """
for id in range(400):
    row = Row(UUID(int=7), "trigger_run", id)
    if {half} == "scanner":
        with tracing.span("pass") as span: span.made("fire", row)
    else:
        tracing.tell("run", of=place_of(row), began_at=born, ended_at=born, attributes={{}})
        with tracing.span("execute", under=place_of(row)): pass
"""


def test_every_process_samples_the_same_rows(say, collector):
    sampler = {"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}
    for half in ("scanner", "worker"):
        say(_EACH_PARTS.format(half=repr(half)), collector.url, **sampler)

    traces = [
        {span.trace_id for span in collector.named(name)} for name in ("fire", "run", "execute")
    ]
    assert traces[0] == traces[1] == traces[2]
    assert 40 < len(traces[0]) < 200


def test_a_collector_that_answers_errors_is_told_once_in_the_log(say):
    receiver = Receiver(answers=[(400, {}, b"")])
    with a_collector(receiver=receiver) as collector:
        lines = say(
            "from itertools import repeat\n"
            "for _ in repeat(None, 1500):\n"
            '    with tracing.span("round"): pass',
            collector.url,
        )

    assert len(receiver.requests) > 1
    assert [line["event"] for line in lines] == ["traces_not_taken"]


@pytest.mark.parametrize("away", ["refuses", "is silent"])
def test_a_collector_that_is_away_or_frozen_lets_a_process_end(say, away):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        if away == "refuses":
            silent.close()
        lines = say(
            'for _ in range(10_000):\n    with tracing.span("round"): pass\nlog.info("made")',
            f"http://127.0.0.1:{port}",
        )

    assert "made" in [line["event"] for line in lines]
