import gzip
import os
import socket
import struct
import threading

import pytest

from shared.actions.addresses import AddressPolicy
from shared.actions.failures import ActionFailed
from shared.actions.http import MAX_ANSWER_BYTES, Call, HttpCaller
from shared.actions.urls import parse_url
from tests.integration.actions.conftest import ANY_PORT, LOOPBACK
from tests.integration.actions.receivers import a_raw_server, a_receiver

PATIENT, SHORT = 30, 0.3
NOT_CALLED = (
    "has an address that may not be called: it is not public, and ALLOWED_NETWORKS does not let it"
    " through"
)


def a_call(url, *, method="POST", headers=None, body=b"{}", trusted=False):
    return Call(
        method=method, url=parse_url(url), headers=headers or {}, body=body, trusted=trusted
    )


def failure_of(caller, url, *, deadline_seconds=PATIENT, **arguments):
    with pytest.raises(ActionFailed) as caught:
        caller.send(a_call(url, **arguments), deadline_seconds=deadline_seconds)
    return caught.value


def answering(data, *, then=lambda server, sock: None):
    """A behaviour that reads the request and sends ``data``."""

    def behaviour(server, sock):
        server.read_request(sock)
        sock.sendall(data)
        then(server, sock)

    return behaviour


# What is sent


def test_a_call_arrives_as_it_was_made(caller, receiver):
    receiver.answers = [(201, {"X-Reply": "yes"}, b"created")]

    answer = caller.send(
        a_call(f"{receiver.url}/orders?id=1", headers={"X-A": "b"}, body="é".encode()),
        deadline_seconds=PATIENT,
    )

    [request] = receiver.requests
    assert (request.method, request.target, request.body) == ("POST", "/orders?id=1", "é".encode())
    assert request.headers == {
        "host": f"127.0.0.1:{receiver.port}",
        "user-agent": "Duebook/test",
        "accept-encoding": "identity",
        "content-length": "2",
        "x-a": "b",
    }
    assert (answer.status, answer.body, answer.headers["x-reply"]) == (201, b"created", "yes")


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_every_method_is_sent(caller, receiver, method):
    receiver.answers = [(200, {}, b"body")]

    answer = caller.send(a_call(receiver.url, method=method, body=None), deadline_seconds=PATIENT)

    assert receiver.requests[0].method == method
    assert answer.body == (b"" if method == "HEAD" else b"body")


def test_a_redirect_is_not_followed(caller, receiver):
    with a_receiver() as elsewhere:
        receiver.answers = [(302, {"Location": elsewhere.url}, b"")]

        answer = caller.send(a_call(receiver.url), deadline_seconds=PATIENT)

        assert answer.status == 302
        assert elsewhere.requests == []


def test_a_proxy_of_the_environment_is_not_asked(receiver, monkeypatch):
    with a_receiver() as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        caller = HttpCaller(policy=LOOPBACK, ports=ANY_PORT, user_agent="Duebook/test")
        caller.send(a_call(receiver.url), deadline_seconds=PATIENT)
        caller.close()

        assert proxy.requests == []
        assert len(receiver.requests) == 1


# Connections


def test_a_connection_is_used_again(caller, receiver):
    for _ in range(3):
        caller.send(a_call(receiver.url), deadline_seconds=PATIENT)

    assert len(receiver.requests) == 3
    assert receiver.connections == 1


def test_calls_at_one_time_do_not_share_a_connection(caller, receiver):
    threads = [
        threading.Thread(
            target=caller.send, args=(a_call(receiver.url),), kwargs={"deadline_seconds": PATIENT}
        )
        for _ in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(receiver.requests) == 16


def test_a_connection_with_an_unread_answer_is_not_used_again(caller, receiver):
    receiver.answers = [(200, {}, b"x" * (MAX_ANSWER_BYTES + 1)), (200, {}, b"second")]

    caller.send(a_call(receiver.url), deadline_seconds=PATIENT)
    second = caller.send(a_call(receiver.url), deadline_seconds=PATIENT)

    assert second.body == b"second"
    assert receiver.connections == 2


def test_a_connection_that_the_peer_closed_is_not_used_again(caller):
    closed = threading.Event()

    def behaviour(server, sock):
        server.read_request(sock)
        sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        sock.close()
        closed.set()

    with a_raw_server(behaviour) as server:
        for _ in range(2):
            assert caller.send(a_call(server.url), deadline_seconds=PATIENT).status == 200
            assert closed.wait(PATIENT)

        assert len(server.accepted) == 2


def test_an_answer_after_an_interim_status_is_not_taken_for_the_next_calls(caller):
    early = b"HTTP/1.1 103 Early Hints\r\n\r\n"

    with a_raw_server(answering(early)) as server:
        for _ in range(2):
            assert caller.send(a_call(server.url), deadline_seconds=PATIENT).status == 103

        assert len(server.accepted) == 2


def test_a_kept_connection_outlives_the_deadline_of_its_call(caller):
    first_is_over = threading.Event()

    def behaviour(server, sock):
        for wait in (False, True):
            server.read_request(sock)
            if wait:
                first_is_over.wait(PATIENT)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with a_raw_server(behaviour) as server:
        caller.send(a_call(server.url), deadline_seconds=SHORT)
        # A call that ends by the same deadline shows that it has passed for the first one, too.
        with a_raw_server(lambda other, sock: other.ended.wait()) as silent:
            second = threading.Thread(
                target=caller.send,
                args=(a_call(server.url),),
                kwargs={"deadline_seconds": PATIENT},
            )
            second.start()
            failure_of(caller, silent.url, deadline_seconds=SHORT)
        first_is_over.set()
        second.join()

        assert len(server.accepted) == 1


# One total deadline


def test_a_peer_that_says_nothing(caller):
    with a_raw_server(lambda server, sock: server.ended.wait()) as server:
        failure = failure_of(caller, server.url, deadline_seconds=SHORT)

    assert failure.transient
    assert failure.unknown
    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


def test_a_peer_that_drips_its_headers(caller):
    drip = b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200

    with a_raw_server(lambda server, sock: server.drip(sock, drip)) as server:
        failure = failure_of(caller, server.url, deadline_seconds=SHORT)

    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n",
    ],
)
def test_a_peer_that_drips_its_body_has_not_answered(caller, head):
    def drip(server, sock):
        server.drip(sock, b"x" * 1000)

    with a_raw_server(answering(head, then=drip)) as server:
        failure = failure_of(caller, server.url, deadline_seconds=SHORT)

    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


def test_a_peer_that_repeats_interim_answers(caller):
    def repeat(server, sock):
        while not server.ended.is_set():
            sock.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")

    with a_raw_server(repeat) as server:
        failure = failure_of(caller, server.url, deadline_seconds=SHORT)

    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


def test_a_peer_that_does_not_read(caller):
    with a_raw_server(lambda server, sock: server.ended.wait()) as server:
        failure = failure_of(caller, server.url, deadline_seconds=SHORT, body=b"x" * 50_000_000)

    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


def test_a_peer_that_lets_the_handshake_wait(caller):
    with a_raw_server(lambda server, sock: server.ended.wait()) as server:
        failure = failure_of(caller, server.url.replace("http:", "https:"), deadline_seconds=SHORT)

    assert failure.detail == "127.0.0.1 gave no answer in 0.3 s"


def test_a_look_up_that_hangs():
    hung = threading.Event()

    def look_up(host, port):
        hung.wait(PATIENT)
        return ["127.0.0.1"]

    caller = HttpCaller(policy=LOOPBACK, ports=ANY_PORT, user_agent="x", look_up=look_up)
    failure = failure_of(caller, "http://slow.example/", deadline_seconds=SHORT)
    hung.set()
    caller.close()

    assert failure.transient
    assert not failure.unknown
    assert failure.detail == "slow.example gave no answer in 0.3 s"


def test_one_slow_peer_does_not_end_the_calls_of_others(caller, receiver):
    with a_raw_server(lambda server, sock: server.ended.wait()) as server:
        failure_of(caller, server.url, deadline_seconds=SHORT)

        assert caller.send(a_call(receiver.url), deadline_seconds=PATIENT).status == 200


# Bounded reading


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffff\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ],
)
def test_64_kib_of_an_endless_body_are_read(caller, head):
    sent = []

    def endless(server, sock):
        while not server.ended.is_set():
            sent.append(sock.send(b"x" * 65536))

    with a_raw_server(answering(head, then=endless)) as server:
        answer = caller.send(a_call(server.url), deadline_seconds=PATIENT)

    assert answer.status == 200
    assert answer.body == b"x" * MAX_ANSWER_BYTES
    # What the two socket buffers took beyond; a reader without a limit would have taken gigabytes.
    assert sum(sent) < 64 * 1024 * 1024


def test_a_compressed_answer_is_not_unpacked(caller, receiver):
    bomb = gzip.compress(b"\0" * 10_000_000)
    receiver.answers = [(200, {"Content-Encoding": "gzip"}, bomb)]

    answer = caller.send(a_call(receiver.url), deadline_seconds=PATIENT)

    assert answer.body == bomb


# Broken peers


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00\xff" * 100,
        b"SSH-2.0-OpenSSH_9.2\r\n",
        b"HTTP/1.1 OK\r\n\r\n",
        b"HTTP/3.7 200 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX-A: " + b"b" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ],
)
def test_an_answer_that_cannot_be_read_is_transient(caller, data):
    with a_raw_server(answering(data)) as server:
        failure = failure_of(caller, server.url)

    assert failure.transient
    assert "127.0.0.1" in failure.detail


def test_a_reset_connection_is_transient(caller):
    def reset(server, sock):
        server.read_request(sock)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with a_raw_server(reset) as server:
        failure = failure_of(caller, server.url)

    assert failure.transient
    assert failure.unknown
    assert failure.detail == "the connection to 127.0.0.1 failed: Connection reset by peer"


def test_a_closed_port_is_transient(caller):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        failure = failure_of(caller, f"http://127.0.0.1:{taken.getsockname()[1]}/")

    assert failure.transient
    assert not failure.unknown
    assert failure.detail == "the connection to 127.0.0.1 failed: Connection refused"


def test_the_next_address_is_tried_when_one_refuses(receiver):
    caller = HttpCaller(
        policy=LOOPBACK,
        ports=ANY_PORT,
        user_agent="x",
        look_up=lambda host, port: ["127.0.0.2", "127.0.0.1"],
    )

    answer = caller.send(
        a_call(f"http://receiver.example:{receiver.port}/"), deadline_seconds=PATIENT
    )
    caller.close()

    assert answer.status == 200
    assert receiver.requests[0].headers["host"] == f"receiver.example:{receiver.port}"


def test_a_host_without_an_address_is_transient():
    def look_up(host, port):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    caller = HttpCaller(policy=LOOPBACK, ports=ANY_PORT, user_agent="x", look_up=look_up)
    failure = failure_of(caller, "http://nowhere.example/")
    caller.close()

    assert failure.transient
    assert not failure.unknown
    assert failure.detail == "the connection to nowhere.example failed: Name or service not known"


# TLS


@pytest.fixture
def trusting_caller(certificate, monkeypatch):
    """A caller that trusts the certificate, as an operator makes it do."""
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
    caller = HttpCaller(policy=LOOPBACK, ports=ANY_PORT, user_agent="Duebook/test")
    yield caller
    caller.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "0x7f000001"])
def test_tls_goes_by_the_name_and_dials_the_address(trusting_caller, certificate, host):
    with a_receiver(tls=certificate) as receiver:
        for _ in range(2):
            answer = trusting_caller.send(
                a_call(f"https://{host}:{receiver.port}/"), deadline_seconds=PATIENT
            )

        assert answer.status == 200
        assert receiver.requests[0].headers["host"] == f"{host}:{receiver.port}"
        assert receiver.connections == 1


def test_a_certificate_for_another_name_is_refused(trusting_caller, certificate):
    with a_receiver(tls=certificate) as receiver:
        failure = failure_of(trusting_caller, f"https://127.1:{receiver.port}/")

        assert "TLS with 127.1 failed: Hostname mismatch" in failure.detail
        assert receiver.requests == []


def test_a_certificate_of_an_unknown_authority_is_refused(caller, certificate):
    with a_receiver(tls=certificate) as receiver:
        failure = failure_of(caller, f"https://127.0.0.1:{receiver.port}/")

        assert failure.detail == "TLS with 127.0.0.1 failed: self-signed certificate"
        assert not failure.unknown
        assert receiver.requests == []


def test_a_peer_without_tls_is_transient(caller, receiver):
    failure = failure_of(caller, receiver.url.replace("http:", "https:"))

    assert failure.transient
    assert failure.detail.startswith("TLS with 127.0.0.1 failed: ")


# Destinations that must not be called


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.1",
        "127.0.0.2",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "2130706433",
        "017700000001",
        "0",
        "0.0.0.0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[0:0:0:0:0:0:0:1]",
    ],
)
def test_no_byte_reaches_this_machine_by_any_spelling(strict_caller, host):
    with a_raw_server(lambda server, sock: server.read_request(sock)) as server:
        failure = failure_of(strict_caller, f"http://{host}:{server.port}/")

        assert not failure.transient
        assert failure.detail == f"{host.strip('[]')} {NOT_CALLED}"
        assert server.accepted == []


@pytest.mark.parametrize(
    "addresses",
    [
        ["127.0.0.1"],
        ["8.8.8.8", "127.0.0.1"],
        ["127.0.0.1", "8.8.8.8"],
        ["2606:4700:4700::1111", "::ffff:127.0.0.1"],
        ["fe80::1%eth0"],
        ["169.254.169.254"],
    ],
)
def test_one_refused_address_refuses_the_host(addresses):
    with a_raw_server(lambda server, sock: server.read_request(sock)) as server:
        caller = HttpCaller(
            policy=AddressPolicy(),
            ports=ANY_PORT,
            user_agent="x",
            look_up=lambda host, port: addresses,
        )
        failure = failure_of(caller, f"http://mixed.example:{server.port}/")
        caller.close()

        assert not failure.transient
        assert failure.detail == f"mixed.example {NOT_CALLED}"
        assert server.accepted == []


def test_a_host_that_changes_its_address_is_judged_again(receiver):
    answers = [["127.0.0.1"], ["10.0.0.1"]]
    caller = HttpCaller(
        policy=LOOPBACK,
        ports=ANY_PORT,
        user_agent="x",
        look_up=lambda host, port: answers.pop(0),
    )
    url = f"http://rebinding.example:{receiver.port}/"

    assert caller.send(a_call(url), deadline_seconds=PATIENT).status == 200
    assert not failure_of(caller, url).transient
    caller.close()
    assert len(receiver.requests) == 1


def test_a_port_that_is_not_allowed_is_refused(receiver):
    caller = HttpCaller(policy=LOOPBACK, ports=(80, 443), user_agent="x")
    failure = failure_of(caller, receiver.url)
    caller.close()

    assert not failure.transient
    assert failure.detail == (
        f"port {receiver.port} may not be called: it is none of ALLOWED_PORTS"
    )
    assert receiver.requests == []


def test_the_operators_own_destination_is_not_judged(receiver):
    caller = HttpCaller(policy=AddressPolicy(), ports=(443,), user_agent="x")
    answer = caller.send(a_call(receiver.url, trusted=True), deadline_seconds=PATIENT)
    caller.close()

    assert answer.status == 200


def test_calls_leave_no_descriptor_behind(caller, receiver):
    def open_descriptors():
        return len(os.listdir("/dev/fd"))

    with a_raw_server(lambda server, sock: server.ended.wait()) as silent:
        caller.send(a_call(receiver.url), deadline_seconds=PATIENT)
        before = open_descriptors()
        for _ in range(20):
            caller.send(a_call(receiver.url), deadline_seconds=PATIENT)
        assert open_descriptors() == before
        for _ in range(3):
            failure_of(caller, silent.url, deadline_seconds=0.05)

    assert open_descriptors() <= before
