"""``/healthz``, ``/readyz`` and ``/metrics`` of a process, on a port of their own.

A slow client of the product cannot hold them up, and they show nothing of any tenant.
"""

import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import structlog
from prometheus_client import CONTENT_TYPE_LATEST, REGISTRY, CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from shared.errors import Unavailable

Check = Callable[[], str | None]
"""Returns None when all is well, else one line that says what is not."""

_log = structlog.get_logger()
_PLAIN = "text/plain; charset=utf-8"


class HealthServer:
    """Answers on a thread of its own until it is closed."""

    def __init__(self, *, host: str, port: int, alive: Check, ready: Check) -> None:
        """``alive``: the process is worth keeping; ``ready``: it can do its work just now.

        Port 0 takes any free one. Raises Unavailable ``health_port_unavailable``.
        """
        answers: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/healthz": lambda: _answer(alive),
            "/readyz": lambda: _answer(ready),
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, generate_latest(_registry())),
        }

        class Handler(BaseHTTPRequestHandler):
            timeout = 5

            def do_GET(self) -> None:
                """Answer one of the three paths."""
                answer = answers.get(self.path.partition("?")[0])
                status, media_type, body = answer() if answer else (404, _PLAIN, b"not found\n")
                self.send_response(status)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing: probes come every few seconds."""

        try:
            self._server = ThreadingHTTPServer((host, port), Handler)
        except (OSError, UnicodeError) as error:  # what is no name of a host cannot be encoded
            reason = error.strerror if isinstance(error, OSError) else "it is no name of a host"
            message = f"HEALTH_HOST, HEALTH_PORT: cannot listen on {host}:{port}: {reason}"
            raise Unavailable(message, code="health_port_unavailable") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="health")
        self._thread.daemon = True
        self._thread.start()

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return int(self._server.server_address[1])

    def close(self) -> None:
        """Stop answering and free the port."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _answer(check: Check) -> tuple[int, str, bytes]:
    try:
        fault = check()
    except Exception:
        _log.exception("health_check_failed")
        fault = "the check failed"
    return (200, _PLAIN, b"ok\n") if fault is None else (503, _PLAIN, f"{fault}\n".encode())


def _registry() -> CollectorRegistry:
    # Several processes of one service (gunicorn) write their counts into a folder.
    if "PROMETHEUS_MULTIPROC_DIR" not in os.environ:
        return REGISTRY
    registry = CollectorRegistry()
    MultiProcessCollector(registry)
    return registry
