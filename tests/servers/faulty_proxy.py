"""A proxy before a PostgreSQL server that loses answers or falls silent when a test says so."""

import socket
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# What the server says last when it has done what it was asked; the letter that follows tells
# whether a transaction is open.
_READY = b"Z\x00\x00\x00\x05"


class FaultyProxy:
    """Passes everything on, until it is told to lose an answer or to be silent."""

    def __init__(self, database_url):
        self._target = urlsplit(database_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = database_url.replace(f":{self._target.port}/", f":{port}/")
        self._pattern = None
        self._lost = threading.Event()
        self._silent_from = None
        self._passing = threading.Event()
        self._passing.set()
        self._sockets = []
        self._threads = []
        self._begin(self._accept)

    def lose_answer_to(self, pattern):
        """Do the next thing that is asked with these bytes, then cut instead of answering.

        Return an event that is set when that has happened.
        """
        self._lost.clear()
        self._pattern = pattern
        return self._lost

    def be_silent(self, *, from_answer_to=None):
        """Hold back everything, on open connections and new ones.

        ``from_answer_to``: not before something is asked with these bytes; that is still passed on.
        """
        if from_answer_to is None:
            self._passing.clear()
        else:
            self._silent_from = from_answer_to

    def speak(self):
        """Pass on what was held back, and everything from now on."""
        self._passing.set()

    def close(self):
        """Cut everything and end."""
        self._passing.set()
        self._close(self._listener, *self._sockets)
        for thread in self._threads:
            thread.join()

    def _begin(self, task, *arguments):
        thread = threading.Thread(target=task, args=arguments)
        self._threads.append(thread)
        thread.start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection((self._target.hostname, self._target.port))
                self._sockets += [client, server]
                cut = threading.Event()
                self._begin(self._pass_questions, client, server, cut)
                self._begin(self._pass_answers, server, client, cut)

    def _pass_questions(self, client, server, cut):
        with suppress(OSError):
            while asked := client.recv(65536):
                self._passing.wait()
                if self._pattern is not None and self._pattern in asked:
                    self._pattern = None
                    cut.set()
                if self._silent_from is not None and self._silent_from in asked:
                    self._silent_from = None
                    self._passing.clear()
                server.sendall(asked)
        self._close(client, server)

    def _pass_answers(self, server, client, cut):
        with suppress(OSError):
            while answered := server.recv(65536):
                self._passing.wait()
                if not cut.is_set():
                    client.sendall(answered)
                elif answered[:-1].endswith(_READY):
                    break
        self._close(client, server)
        if cut.is_set():
            self._lost.set()

    def _close(self, *sockets):
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def faulty_proxy(database_url):
    """Run a FaultyProxy for the block."""
    proxy = FaultyProxy(database_url)
    try:
        yield proxy
    finally:
        proxy.close()
