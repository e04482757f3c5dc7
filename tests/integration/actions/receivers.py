"""Receivers of outgoing calls: one that behaves and records, and one that does as it is told."""

import socket
import ssl
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a receiver got; ``headers`` are keyed in lower case."""

    method: str
    target: str
    headers: dict
    body: bytes
    peer: tuple


@dataclass(slots=True)
class Receiver:
    """An HTTP server that records requests and gives the answers in ``answers``, the last for ever.

    An answer is (status, headers, body). With ``let_go`` it waits until that is set.
    """

    port: int = 0
    requests: list = field(default_factory=list)
    answers: list = field(default_factory=lambda: [(200, {}, b"")])
    let_go: threading.Event | None = None

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def connections(self):
        return len({request.peer for request in self.requests})

    def next_answer(self):
        if self.let_go is not None:
            self.let_go.wait(60)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def a_receiver(*, tls=None, receiver=None):
    """A Receiver on a free port of 127.0.0.1; ``tls`` is (certificate file, key file).

    ``receiver`` stands in for one that gives the answers it is told.
    """
    receiver = receiver or Receiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def answer(self):
            length = int(self.headers.get("Content-Length", 0))
            receiver.requests.append(
                Request(
                    method=self.command,
                    target=self.path,
                    headers={name.lower(): value for name, value in self.headers.items()},
                    body=self.rfile.read(length),
                    peer=self.client_address,
                )
            )
            status, headers, body = receiver.next_answer()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = answer

        def log_message(self, format, *args):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda request, address: None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.let_go is not None:
            receiver.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass(slots=True)
class RawServer:
    """A TCP server; ``ended`` is set when the test is over."""

    port: int
    accepted: list = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/"

    def read_request(self, sock):
        """Read a request with the body ``{}``; False when the peer closed instead."""
        request = b""
        while not request.endswith(b"\r\n\r\n{}"):
            piece = sock.recv(65536)
            if not piece:
                return False
            request += piece
        return True

    def drip(self, sock, data):
        """Send a byte now and then: as long as one listens, longer than any test's deadline."""
        for byte in data:
            if self.ended.wait(0.02):
                return
            sock.sendall(bytes([byte]))


@contextmanager
def a_raw_server(behaviour):
    """A RawServer on 127.0.0.1 that runs ``behaviour(server, sock)`` for each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = RawServer(port=listener.getsockname()[1])
    threads = []

    def serve(sock):
        with sock, suppress(OSError):
            behaviour(server, sock)

    def accept():
        with suppress(OSError):
            while True:
                sock, address = listener.accept()
                server.accepted.append(address)
                thread = threading.Thread(target=serve, args=(sock,))
                threads.append(thread)
                thread.start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield server
    finally:
        server.ended.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        for thread in [accepting, *threads]:
            thread.join()
