"""Somebody outside whom the workers call: records every call, and answers as the hour demands."""

import random
import threading
import time
from collections import Counter
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.chaos.evidence import Call

# How it may be: as it should; late; refusing for now; gone; or it acts and nobody hears of it.
MOODS = ("slow", "failing", "busy", "down", "silent", "losing")
# Between acting and answering, by mood: nobody answers in no time, or nothing would ever strike in
# the midst of a call.
_PAUSES = {None: (0.0, 0.4), "slow": (0.2, 2.5)}
_SILENT_SECONDS = 12.0  # longer than the deadline of any call
# Answered later than this, on a machine that is busy, it may have been too late for the deadline.
_LATE_SECONDS = 3.5
# What failed so often is answered from then on: each failure makes the next attempt wait longer,
# and a run is to end some time.
_FAILURES = 2


class Receiver:
    """What was called, and how the next call is answered; ``mood`` None is: soon, and well."""

    def __init__(self, seed):
        self.mood = None
        self.calls = []
        self.port = 0
        self._random = random.Random(seed)
        self._failures = Counter()
        self._ended = threading.Event()
        self._lock = threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def behaviour(self, key):
        """Return how a call under this key is treated."""
        with self._lock:
            mood = self.mood
            if mood in (None, "slow"):
                return mood
            self._failures[key] += 1
            return mood if self._failures[key] <= _FAILURES else None

    def record(self, tag, key, delivery, at, outcome):
        call = Call(tag=tag, key=key, delivery=delivery, at=at, outcome=outcome)
        with self._lock:
            self.calls.append(call)

    def pause(self, mood):
        """Take the time that this mood takes."""
        if mood in _PAUSES:
            self._ended.wait(self._random.uniform(*_PAUSES[mood]))
        if mood == "silent":
            self._ended.wait(_SILENT_SECONDS)

    def end(self):
        self._ended.set()


def _handler(receiver):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = 20

        def do_POST(self):
            at = time.time()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            key = self.headers["Idempotency-Key"]
            tag = self.path.rpartition("/")[2]
            mood = receiver.behaviour(key)
            status = {"failing": 500, "busy": 503}.get(mood, 200)
            if self.path.startswith("/refuse/") and status == 200:
                status = 404
            delivery = int(self.headers["Duebook-Delivery"])
            if mood in ("silent", "losing", "down"):
                outcome = "refused" if mood == "down" else "lost"
                receiver.record(tag, key, delivery, at, outcome)
                receiver.pause(mood)
                self.close_connection = True
                return
            receiver.pause(mood)
            self.answer(status)
            done = "done" if time.time() - at < _LATE_SECONDS else "lost"
            receiver.record(tag, key, delivery, at, done if status in (200, 404) else "refused")

        def answer(self, status):
            self.send_response(status)
            self.send_header("Content-Length", "0")
            if status == 503:
                self.send_header("Retry-After", "1")
            with suppress(OSError):  # who asked is gone: so is the answer
                self.end_headers()

        def log_message(self, format, *args):
            pass

    return Handler


@contextmanager
def running_receiver(seed):
    """Run a Receiver for the block."""
    receiver = Receiver(seed)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(receiver))
    server.daemon_threads = True
    server.block_on_close = False
    server.request_queue_size = 128
    server.handle_error = lambda request, address: None
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield receiver
    finally:
        receiver.end()
        server.shutdown()
        server.server_close()
        thread.join()
