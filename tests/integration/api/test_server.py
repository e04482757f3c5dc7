"""The API as it runs: gunicorn with the product's configuration, on real sockets."""

import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from services.cli.embedded_postgres import free_port
from shared.db.clock import server_now
from shared.db.roles import API, WORKER
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.lifecycle import wait_until
from shared.queries.tracking import find_click
from shared.tracking.redis_line import open_redis
from shared.usecases.tokens import issue_token
from tests.builders_db import insert_tenant
from tests.builders_delayed import insert_link
from tests.integration.api.callers import ADMIN_TOKEN

COMMAND = [sys.executable, "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py"]
SESSIONS = 2
THREADS = 4 * SESSIONS


@dataclass(frozen=True, kw_only=True)
class Server:
    """A running API, its port and that of its health."""

    process: subprocess.Popen
    port: int
    health_port: int

    def ask(self, path, *, port=None, **options):
        """Return status and body of a GET."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=10)
        try:
            connection.request("GET", path, **options)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def is_ready(self):
        assert self.process.poll() is None
        try:
            return self.ask("/readyz", port=self.health_port)[0] == 200
        except OSError:
            return False

    def send(self, data):
        """Return an open connection on which these bytes were sent."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=10)
        connection.sendall(data)
        return connection


@pytest.fixture
def start_server(database_url, redis_url):
    """Starts replicas of the API on one database and one Redis."""
    started = []

    def start(**settings):
        port, health_port = free_port(), free_port()
        environment = {
            **os.environ,
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
            "DB_POOL_SIZE": str(SESSIONS),
            "ADMIN_TOKEN": ADMIN_TOKEN,
            "API_PORT": str(port),
            "HEALTH_PORT": str(health_port),
            "MAX_BODY_BYTES": "1000",
            **settings,
        }
        process = subprocess.Popen(
            [*COMMAND, "services.api.wsgi:app"], env=environment, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        server = Server(process=process, port=port, health_port=health_port)
        assert wait_until(server.is_ready, seconds=30)
        return server

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def server(start_server):
    return start_server()


def received(connection):
    """Return status and document of the answer on a connection."""
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    return answer.status, json.loads(answer.read())


def test_it_answers_counts_and_logs_and_stops_when_told(server):
    status, body = server.ask("/root/tenants", headers={"X-ADMIN-TOKEN": ADMIN_TOKEN})
    assert (status, json.loads(body)) == (200, {"items": [], "next_cursor": None})

    _, metrics = server.ask("/metrics", port=server.health_port)
    counted = 'duebook_request_seconds_count{method="GET",route="/root/tenants",status="200"} 1.0'
    assert counted in metrics.decode().splitlines()
    told = dict(line.rsplit(" ", 1) for line in metrics.decode().splitlines() if line[0] != "#")
    assert float(told['duebook_pool_sessions{state="free"}']) > 0

    server.process.send_signal(signal.SIGTERM)
    _, log = server.process.communicate(timeout=30)
    assert server.process.returncode == 0
    events = [json.loads(line) for line in log.splitlines()]
    answered = [event for event in events if event["event"] == "request_answered"]
    assert [(one["route"], one["status"], one["service"]) for one in answered] == [
        ("/root/tenants", 200, "api")
    ]
    assert ADMIN_TOKEN not in log


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {},
            'the database\'s role "worker_1" may not act as duebook_api: it is of'
            " duebook_worker, use a login of duebook_api\n",
        ),
        (
            {"DB_POOL_SIZE": "many"},
            "settings are not valid:\n  DB_POOL_SIZE: Not a valid integer.\n",
        ),
    ],
)
def test_it_does_not_start_with_a_login_or_settings_that_are_not_fit(login_url, settings, said):
    environment = {
        **os.environ,
        "DATABASE_URL": login_url(WORKER),
        "ADMIN_TOKEN": ADMIN_TOKEN,
        "API_PORT": str(free_port()),
        "HEALTH_PORT": str(free_port()),
        **settings,
    }

    ended = subprocess.run(
        [*COMMAND, "services.api.wsgi:app"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", said)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "HEALTH_HOST, HEALTH_PORT: cannot listen on 127.0.0.1:{}: Address already in use"),
        ({"REDIS_URL": "redis://h?x=1"}, "  REDIS_URL: Must have the parameters of its driver."),
    ],
)
def test_it_says_in_a_line_what_a_worker_of_gunicorn_found(login_url, settings, said):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        environment = {
            **os.environ,
            "DATABASE_URL": login_url(API),
            "ADMIN_TOKEN": ADMIN_TOKEN,
            "API_PORT": str(free_port()),
            "HEALTH_PORT": str(port),
            **settings,
        }
        ended = subprocess.run(
            [*COMMAND, "services.api.wsgi:app"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert ended.returncode == 3
    assert said.format(port) in ended.stderr.splitlines()
    assert "Traceback" not in ended.stdout + ended.stderr


def test_a_click_is_remembered_in_redis_and_in_the_database(server, redis_url, conn):
    token = link_token(secrets.token_bytes(TOKEN_BYTES))
    link_id = insert_link(conn, insert_tenant(conn), token=token)

    status, _ = server.ask(f"/t/{token}")

    assert status == 302
    clicked_at = find_click(conn, link_id)
    with open_redis(redis_url) as redis:
        assert redis.get(f"duebook:click:{token}") == clicked_at.isoformat().encode()


def test_a_body_over_the_limit_is_refused_while_none_of_it_was_sent(server):
    head = (
        f"POST /root/tenants HTTP/1.1\r\nHost: a\r\nX-ADMIN-TOKEN: {ADMIN_TOKEN}\r\n"
        "Content-Type: application/json\r\nContent-Length: 50000000\r\n\r\n"
    )

    with server.send(head.encode()) as connection:
        status, document = received(connection)

    assert (status, document["type"]) == (413, "urn:duebook:problem:body_too_large")


def test_a_body_whose_sender_goes_away_is_refused(server):
    head = (
        f"POST /root/tenants HTTP/1.1\r\nHost: a\r\nX-ADMIN-TOKEN: {ADMIN_TOKEN}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"name": "a"}'
    )

    with server.send(head.encode()) as connection:
        connection.shutdown(socket.SHUT_WR)
        status, document = received(connection)

    assert (status, document["type"]) == (400, "urn:duebook:problem:body_truncated")
    assert json.loads(server.ask("/root/tenants", headers={"X-ADMIN-TOKEN": ADMIN_TOKEN})[1]) == {
        "items": [],
        "next_cursor": None,
    }


def test_a_chunked_body_is_refused(server):
    head = (
        f"POST /root/tenants HTTP/1.1\r\nHost: a\r\nX-ADMIN-TOKEN: {ADMIN_TOKEN}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )

    with server.send(head.encode()) as connection:
        status, document = received(connection)

    assert (status, document["type"]) == (411, "urn:duebook:problem:length_required")


HEAD = b"GET /root/tenants HTTP/1.1\r\nHost: a\r\n"


NO_REQUESTS = [
    (HEAD + b"Bearer a-secret\r\n\r\n", 400),
    (HEAD + b"Authorization : Bearer a-secret\r\n\r\n", 400),
    (HEAD + b"Authorization: Bearer\r\n a-secret\r\n\r\n", 400),
    (HEAD + b"Authorization: Bearer a-secret\0\r\n\r\n", 400),
    (HEAD + b"Transfer-Encoding: a-secret\r\n\r\n", 400),
    (HEAD + b"Content-Length: -1\r\n\r\n", 400),
    (HEAD + b"Expect: a-secret\r\n\r\n", 417),
    (HEAD + b"X: a-secret" + 9000 * b"x" + b"\r\n\r\n", 431),
    (HEAD + 101 * b"X: a-secret\r\n" + b"\r\n", 431),
    (b"GET /a-secret" + 9000 * b"x" + b" HTTP/1.1\r\n\r\n", 414),
    (b"a-secret / HTTP/1.1\r\n\r\n", 400),
    (b"GET /a-secret HTTP/9.9\r\n\r\n", 400),
    (b"\x16\x03\x01a-secret\r\n\r\n", 400),
]


def test_what_is_no_request_is_refused_and_its_text_told_to_nobody(server):
    for data, expected in NO_REQUESTS:
        with server.send(data) as connection:
            status, document = received(connection)
        assert (data, status, document["status"]) == (data, expected, expected)
        assert "a-secret" not in json.dumps(document)

    server.process.send_signal(signal.SIGTERM)
    _, log = server.process.communicate(timeout=30)
    assert log.count("request_unreadable") == len(NO_REQUESTS)
    assert "a-secret" not in log


def test_a_body_that_breaks_behind_its_answer_gets_no_second_one(server):
    head = (
        f"POST /root/tenants HTTP/1.1\r\nHost: a\r\nX-ADMIN-TOKEN: {ADMIN_TOKEN}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n"
    )

    with server.send(head.encode()) as connection:
        status, _ = received(connection)
        rest = connection.recv(1000)

    assert (status, rest) == (411, b"")


def test_health_answers_while_slow_clients_hold_every_thread(server):
    slow = [server.send(b"GET /openapi.json HT") for _ in range(2 * THREADS)]

    assert server.ask("/healthz", port=server.health_port)[0] == 200
    assert server.ask("/readyz", port=server.health_port)[0] == 200
    for connection in slow:
        connection.close()


def test_replicas_count_a_tenant_together_and_guesses_by_address(start_server, conn):
    tenant_id = insert_tenant(conn)
    _, token = issue_token(
        conn,
        tenant_id=tenant_id,
        name="a",
        role="viewer",
        channel_id=None,
        secret=secrets.token_bytes(32),
        now=server_now(conn),
    )
    # One per minute, ten at once.
    limits = {"RATE_LIMIT": "1", "REFUSAL_LIMIT": "1", "TRUSTED_PROXIES": "1"}
    replicas = [start_server(**limits) for _ in range(2)]

    def statuses(said, address, tries):
        headers = {"Authorization": f"Bearer {said}", "X-Forwarded-For": address}
        with ThreadPoolExecutor(8) as pool:
            answers = pool.map(
                lambda n: replicas[n % 2].ask("/tenant/custom-tables/tables", headers=headers),
                range(tries),
            )
            return sorted(status for status, _ in answers)

    network = f"2001:db8:{secrets.token_hex(2)}:{secrets.token_hex(2)}"
    assert statuses(token, f"{network}::1", 30) == [200] * 10 + [429] * 20
    assert statuses("guess", f"{network}::2", 10) == [401] * 10
    assert statuses("guess", f"{network}::3", 4) == [429] * 4
    # Without a tenant nobody waits for a tenant.
    assert replicas[0].ask("/openapi.json")[0] == 200
