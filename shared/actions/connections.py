"""Connections of outgoing calls: resolve once, judge every address, dial a judged one, keep it."""

import http.client
import queue
import select
import socket
import ssl
import threading
from collections.abc import Callable, Container
from dataclasses import dataclass
from ipaddress import ip_address

from shared.actions.addresses import AddressPolicy
from shared.actions.deadlines import Deadline
from shared.actions.urls import Url
from shared.lifecycle import monotonic

_MAX_DIALLED = 3
_MAX_IDLE = 64
# Less than the 5 seconds after which common servers close an idle connection: a request sent into
# a connection that is just being closed fails.
_IDLE_SECONDS = 4.0


LookUp = Callable[[str, int], list[str]]
"""Gives the addresses of a host, to be called at a port. Raises OSError."""


class Refused(Exception):
    """The destination must not be called."""


class Connection(http.client.HTTPConnection):
    """A connection whose socket was dialled beforehand; it never dials by itself.

    A request leaves in one piece when its answer is asked for: head and body apart would be two
    packets, and wake the receiver twice.
    """

    auto_open = 0

    def __init__(self, *, key: "Key", sock: socket.socket) -> None:
        super().__init__(key.host, key.port)
        self.key = key
        self.sock = sock
        self._unsent: list[bytes] = []

    def send(self, data: object) -> None:
        """Keep a part of the request until it is whole."""
        assert isinstance(data, bytes)
        self._unsent.append(data)

    def getresponse(self) -> http.client.HTTPResponse:
        """Send the request and return its answer, as soon as that has begun."""
        request, self._unsent = b"".join(self._unsent), []
        super().send(request)
        return super().getresponse()


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What a kept connection may be used again for."""

    scheme: str
    host: str
    port: int
    address: str


class Connections:
    """Opens and keeps connections; one for all threads of a process."""

    def __init__(self, *, policy: AddressPolicy, ports: Container[int], look_up: LookUp) -> None:
        self._look_up = look_up
        self._policy = policy
        self._ports = ports
        self._tls = ssl.create_default_context()
        self._lock = threading.Lock()
        self._idle: list[tuple[float, Connection]] = []  # oldest first

    def take(self, url: Url, *, deadline: Deadline, trusted: bool) -> Connection:
        """Return a connection to ``url``, held by ``deadline``.

        Raises Refused, OSError, TimeoutError. A ``trusted`` destination, which the operator
        named, is not judged.
        """
        if not trusted and url.port not in self._ports:
            raise Refused(f"port {url.port} may not be called: it is none of ALLOWED_PORTS")
        keys = [
            Key(scheme=url.scheme, host=url.host, port=url.port, address=address)
            for address in self._resolve(url, seconds=deadline.remaining())
        ]
        if not trusted and not all(self._policy.permits(ip_address(key.address)) for key in keys):
            raise Refused(
                f"{url.host} has an address that may not be called: it is not public, and"
                " ALLOWED_NETWORKS does not let it through"
            )
        return self._take_idle(keys, deadline=deadline) or self._open(keys, deadline=deadline)

    def keep(self, connection: Connection) -> None:
        """Take back a connection on which nothing is outstanding."""
        with self._lock:
            self._idle.append((monotonic(), connection))
            dropped = self._drop_old()
        for each in dropped:
            each.close()

    def close(self) -> None:
        """Close what is kept."""
        with self._lock:
            dropped, self._idle = [each for _, each in self._idle], []
        for each in dropped:
            each.close()

    def _drop_old(self) -> list[Connection]:
        oldest = monotonic() - _IDLE_SECONDS
        young = [entry for entry in self._idle if entry[0] > oldest][-_MAX_IDLE:]
        dropped = [each for _, each in self._idle[: len(self._idle) - len(young)]]
        self._idle = young
        return dropped

    def _take_idle(self, keys: list[Key], *, deadline: Deadline) -> Connection | None:
        with self._lock:
            dropped = self._drop_old()
            found = next((each for _, each in reversed(self._idle) if each.key in keys), None)
            if found is not None:
                self._idle = [entry for entry in self._idle if entry[1] is not found]
        if found is not None and _has_something_to_read(found.sock):
            # Closed by the peer, or an answer that nobody asked for.
            dropped.append(found)
            found = None
        for each in dropped:
            each.close()
        if found is not None:
            deadline.hold(found.sock)
        return found

    def _resolve(self, url: Url, *, seconds: float) -> list[str]:
        """Return the addresses of the host, in the order in which they are to be tried."""
        if _is_address(url.host):
            return [url.host]
        # A look-up has no time limit of its own: it gets a thread that may outlive the call.
        answers: queue.SimpleQueue[list[str] | OSError] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                answers.put(self._look_up(url.host, url.port))
            except OSError as error:
                answers.put(error)

        threading.Thread(target=look_up, name="look-up", daemon=True).start()
        try:
            answer = answers.get(timeout=seconds)
        except queue.Empty as error:
            raise TimeoutError from error
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _open(self, keys: list[Key], *, deadline: Deadline) -> Connection:
        problem = OSError("no address")
        dialled = keys[:_MAX_DIALLED]
        for tried, key in enumerate(dialled):
            share = deadline.remaining() / (len(dialled) - tried)
            try:
                sock = socket.create_connection((key.address, key.port), timeout=share)
            except OSError as error:
                problem = error
                continue
            return Connection(key=key, sock=self._prepared(sock, key, deadline))
        raise problem

    def _prepared(self, sock: socket.socket, key: Key, deadline: Deadline) -> socket.socket:
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # From here on the deadline ends whatever the socket waits for.
            sock.settimeout(None)
            if key.scheme == "http":
                deadline.hold(sock)
                return sock
            sock = self._tls.wrap_socket(
                sock, server_hostname=key.host.rstrip("."), do_handshake_on_connect=False
            )
            deadline.hold(sock)
            sock.do_handshake()
        except BaseException:
            sock.close()
            raise
        return sock


def _has_something_to_read(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def system_look_up(host: str, port: int) -> list[str]:
    """Ask the system's resolver, which also takes spellings of addresses such as ``0x7f000001``."""
    # As bytes: the codec for international names, which text goes through, raises other errors.
    found = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
