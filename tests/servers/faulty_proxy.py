"""A proxy before a server that cuts, falls silent or (PostgreSQL) loses answers when told to."""

import socket
import threading
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

# What the server says last when it has done what it was asked; the letter that follows tells
# whether a transaction is open.
_READY = b"Z\x00\x00\x00\x05"
# The two ways of a connection.
QUESTIONS, ANSWERS = "questions", "answers"


class FaultyProxy:
    """Passes everything on, until it is told to lose an answer, to be silent or to cut."""

    def __init__(self, server_url):
        self._target = urlsplit(server_url)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = server_url.replace(f":{self._target.port}/", f":{port}/")
        self._pattern = None
        self._lost = threading.Event()
        self._silent_from = None
        self._passing = {QUESTIONS: threading.Event(), ANSWERS: threading.Event()}
        self.speak()
        self._connections = self._forgotten = 0
        self._servers = []
        self._closing = threading.Event()
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

    def lose_nothing(self):
        """Forget what it was told to lose, if that has not happened yet."""
        self._pattern = None

    def be_silent(self, *ways, from_answer_to=None):
        """Hold back everything, on open connections and new ones.

        ``ways``: one of the two ways alone. ``from_answer_to``: not before something is asked with
        these bytes; that is still passed on.
        """
        if from_answer_to is None:
            for way in ways or self._passing:
                self._passing[way].clear()
        else:
            self._silent_from = from_answer_to

    def speak(self):
        """Pass on what was held back, and everything from now on."""
        for passing in self._passing.values():
            passing.set()

    def aim(self, server_url):
        """Lead new connections to where the server is by now."""
        self._target = urlsplit(server_url)

    def cut(self):
        """End every open connection, in the midst of whatever is said."""
        self._close(*self._sockets)

    def forget(self):
        """Be silent for ever on the connections that are open, and served no more; not on new ones.

        As a server is that has vanished, or what stands before one that was lost.
        """
        self._forgotten = self._connections
        self._close(*self._servers)

    def close(self):
        """Cut everything and end."""
        self.speak()
        self._closing.set()
        self._close(self._listener, *self._sockets)
        for thread in self._threads:
            thread.join()

    def _begin(self, task, *arguments):
        thread = threading.Thread(target=task, args=arguments)
        self._threads = [one for one in self._threads if one.is_alive()] + [thread]
        thread.start()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self._connect(client)

    def _connect(self, client):
        try:
            server = socket.create_connection((self._target.hostname, self._target.port))
        except OSError:  # the server is down: so is the way to it
            client.close()
            return
        self._sockets = [one for one in self._sockets if one.fileno() >= 0] + [client, server]
        self._servers = [one for one in self._servers if one.fileno() >= 0] + [server]
        self._connections += 1
        cut = threading.Event()
        self._begin(self._pass_questions, client, server, cut, self._connections)
        self._begin(self._pass_answers, server, client, cut, self._connections)

    def _pass_questions(self, client, server, cut, number):
        with suppress(OSError):
            while asked := client.recv(65536):
                self._passing[QUESTIONS].wait()
                if self._pattern is not None and self._pattern in asked:
                    self._pattern = None
                    cut.set()
                if self._silent_from is not None and self._silent_from in asked:
                    self._silent_from = None
                    self.be_silent()
                server.sendall(asked)
        self._end(number, client, server)

    def _pass_answers(self, server, client, cut, number):
        with suppress(OSError):
            while answered := server.recv(65536):
                self._passing[ANSWERS].wait()
                if not cut.is_set():
                    client.sendall(answered)
                elif answered[:-1].endswith(_READY):
                    break
        self._end(number, client, server)
        if cut.is_set():
            self._lost.set()

    def _end(self, number, client, server):
        if number <= self._forgotten:
            self._closing.wait()
        self._close(client, server)

    def _close(self, *sockets):
        for each in sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextmanager
def faulty_proxy(server_url):
    """Run a FaultyProxy for the block."""
    proxy = FaultyProxy(server_url)
    try:
        yield proxy
    finally:
        proxy.close()
