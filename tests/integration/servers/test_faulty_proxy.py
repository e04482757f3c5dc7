"""The proxy before a server: what it is told to do to connections, it does."""

import socket
import threading
from contextlib import closing, contextmanager

import pytest

from shared.lifecycle import wait_until
from tests.servers.faulty_proxy import ANSWERS, QUESTIONS, faulty_proxy

SECONDS = 30


@contextmanager
def _a_server(greeting):
    """Somebody who answers each message with the greeting; yields its URL and what it heard."""
    listener = socket.create_server(("127.0.0.1", 0))
    heard = []

    def serve(client):
        with client:
            while message := client.recv(100):
                heard.append(message)
                client.sendall(greeting)

    def accept():
        try:
            while True:
                threading.Thread(target=serve, args=listener.accept()[:1]).start()
        except OSError:
            return

    accepting = threading.Thread(target=accept)
    accepting.start()
    yield f"redis://127.0.0.1:{listener.getsockname()[1]}/0", heard
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    accepting.join()


@pytest.fixture
def server():
    with _a_server(b"hello") as running:
        yield running


@pytest.fixture
def proxy(server):
    with faulty_proxy(server[0]) as running:
        yield running


def _connect(proxy):
    port = int(proxy.url.rpartition(":")[2].partition("/")[0])
    return closing(socket.create_connection(("127.0.0.1", port), timeout=SECONDS))


def _ask(client):
    client.sendall(b"who")
    return client.recv(100)


def test_what_is_cut_ends_and_the_next_connection_passes(proxy):
    with _connect(proxy) as client:
        assert _ask(client) == b"hello"
        proxy.cut()
        assert client.recv(100) == b""
    with _connect(proxy) as client:
        assert _ask(client) == b"hello"


@pytest.mark.parametrize(("way", "is_heard"), [(QUESTIONS, False), (ANSWERS, True)])
def test_one_way_may_be_silent_alone(proxy, server, way, is_heard):
    with _connect(proxy) as client:
        assert _ask(client) == b"hello"
        proxy.be_silent(way)
        client.sendall(b"what")
        assert not is_heard or wait_until(lambda: b"what" in server[1], seconds=SECONDS)
        client.settimeout(0.3)
        with pytest.raises(TimeoutError):
            client.recv(100)
        assert (b"what" in server[1]) == is_heard
        client.settimeout(SECONDS)
        proxy.speak()
        assert client.recv(100) == b"hello"


def test_new_connections_lead_to_where_it_is_aimed(proxy):
    with _a_server(b"moved") as (url, _):
        proxy.aim(url)
        with _connect(proxy) as client:
            assert _ask(client) == b"moved"


def test_before_a_server_that_is_down_it_closes_and_goes_on(proxy, server, unused_port):
    proxy.aim(f"redis://127.0.0.1:{unused_port}/0")
    with _connect(proxy) as client:
        assert client.recv(100) == b""
    proxy.aim(server[0])
    with _connect(proxy) as client:
        assert _ask(client) == b"hello"
