import socket

import pytest
import urllib3

from shared.errors import Unavailable
from shared.observability import metrics
from shared.observability.http import HealthServer


@pytest.fixture
def faults():
    return {"alive": None, "ready": None}


@pytest.fixture
def server(faults):
    server = HealthServer(
        host="127.0.0.1", port=0, alive=lambda: faults["alive"], ready=lambda: faults["ready"]
    )
    yield server
    server.close()


def _get(server, path):
    with urllib3.PoolManager() as pool:
        answer = pool.request("GET", f"http://127.0.0.1:{server.port}{path}", retries=False)
        return answer.status, answer.data.decode()


def test_a_healthy_process_says_so(server):
    assert _get(server, "/healthz") == (200, "ok\n")
    assert _get(server, "/readyz") == (200, "ok\n")


def test_a_process_that_is_not_ready_is_still_alive(server, faults):
    faults["ready"] = "the broker takes no messages"

    assert _get(server, "/readyz") == (503, "the broker takes no messages\n")
    assert _get(server, "/healthz") == (200, "ok\n")


def test_a_check_that_raises_is_a_fault():
    server = HealthServer(host="127.0.0.1", port=0, alive=lambda: 1 / 0, ready=lambda: None)
    try:
        assert _get(server, "/healthz") == (503, "the check failed\n")
    finally:
        server.close()


def test_metrics_are_told_in_the_prometheus_format(server):
    metrics.TICK_FAILURES.labels(part="sweep").inc()

    status, text = _get(server, "/metrics")

    assert status == 200
    assert 'duebook_tick_failures_total{part="sweep"} ' in text


def test_any_other_path_is_not_found(server):
    assert _get(server, "/")[0] == 404


def test_a_silent_client_does_not_hold_up_another(server):
    with socket.create_connection(("127.0.0.1", server.port)):
        assert _get(server, "/healthz")[0] == 200


def test_a_closed_server_frees_its_port(server):
    port = server.port
    server.close()

    again = HealthServer(host="127.0.0.1", port=port, alive=lambda: None, ready=lambda: None)

    assert again.port == port
    again.close()


def test_an_address_that_cannot_be_listened_on_is_told(server):
    for host, port in (("127.0.0.1", server.port), ("192.0.2.1", 0), ("x" * 64, 0)):
        with pytest.raises(Unavailable) as caught:
            HealthServer(host=host, port=port, alive=lambda: None, ready=lambda: None)

        told = f"HEALTH_HOST, HEALTH_PORT: cannot listen on {host}:{port}: "
        assert caught.value.message.startswith(told)
        assert "None" not in caught.value.message
