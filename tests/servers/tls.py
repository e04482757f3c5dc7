"""TLS before servers of the tests that were built without it, and a certificate for it."""

import socket
import ssl
import subprocess
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# What a PostgreSQL client asks before the handshake, and the answer that it may begin.
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"
_WILLING = b"S"


def a_certificate(folder):
    """Make a certificate for 127.0.0.1 that is its own authority; return its file and its key's."""
    files = (folder / "authority.pem", folder / "key.pem")
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2"
    subject = ["-subj", "/CN=server", "-addext", "subjectAltName=IP:127.0.0.1"]
    output = ["-out", str(files[0]), "-keyout", str(files[1])]
    subprocess.run([*command.split(), *subject, *output], check=True, capture_output=True)
    return files


@contextmanager
def tls_before(url, certificate):
    """Run a server for the block that speaks TLS for the one of this URL; gives its own URL.

    The scheme is that of TLS where there is one; with PostgreSQL the client asks for it.
    """
    target = urlsplit(url)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    sockets, threads = [], []

    def begin(task, *arguments):
        threads.append(threading.Thread(target=task, args=arguments))
        threads[-1].start()

    def serve(client):
        with suppress(OSError), client:
            if target.scheme == "postgresql" and client.recv(8) == _SSL_REQUEST:
                client.sendall(_WILLING)
            with (
                context.wrap_socket(client, server_side=True) as inside,
                socket.create_connection((target.hostname, target.port)) as outside,
            ):
                sockets.extend([inside, outside])
                back = threading.Thread(target=_pass, args=(outside, inside))
                back.start()
                _pass(inside, outside)
                back.join()

    def accept():
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                sockets.append(client)
                begin(serve, client)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        begin(accept)
        scheme = {"amqp": "amqps", "redis": "rediss"}.get(target.scheme, target.scheme)
        place = target.netloc.replace(f":{target.port}", f":{listener.getsockname()[1]}")
        yield target._replace(scheme=scheme, netloc=place).geturl()
        for each in (listener, *sockets):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        for thread in threads:
            thread.join()


def _pass(source, sink):
    with suppress(OSError):
        while piece := source.recv(65536):
            sink.sendall(piece)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
