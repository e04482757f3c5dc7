"""The processes that worlds happen in, one world after the other on one database."""

from functools import partial

from shared.queries import tracking
from shared.queries.line_users import find_line_user
from tests.integration.actions.receivers import Receiver
from tests.integration.workflows.mortal import Points, Process
from tests.integration.workflows.workers import Worker


class AnsweringReceiver(Receiver):
    """Gives each request the answer that its action asks for, by how often its key came."""

    def next_answer(self):
        request = self.requests[-1]
        key = request.headers["idempotency-key"]
        answers = request.headers["x-answers"].split()
        count = sum(one.headers["idempotency-key"] == key for one in self.requests)
        return int(answers[min(count, len(answers)) - 1]), {}, b""


class Stage:
    """A worker and one that takes over, an API, a visitor's, a scanner; the dead are replaced."""

    def __init__(self, conn, url, receiver, caller):
        self.conn = conn
        self.receiver = receiver
        self.points = Points()
        self._make_process = partial(_Single, url, points=self.points, monitor=conn)
        self._caller = caller
        self._living = {}
        self._contacts = {}
        self._is_clean = True

    @property
    def worker(self):
        return self._alive("worker")

    @property
    def thief(self):
        return self._alive("thief")

    @property
    def api(self):
        return self._alive("api")

    @property
    def visitor(self):
        return self._alive("visitor")

    @property
    def scanner(self):
        return self._alive("scanner")

    def begin(self):
        """Begin with a world; what a world that failed has left is taken away."""
        if not self._is_clean:
            self.close()
            self.conn.execute("TRUNCATE tenant, worker CASCADE")
        self._is_clean = False
        self.worlds = getattr(self, "worlds", 0) + 1
        self._contacts.clear()
        self.receiver.requests.clear()
        self.points.passed.clear()

    def end(self):
        """End with a world that has gone well."""
        self._is_clean = True

    def close(self):
        """Let every process die."""
        for process in self._living.values():
            _process_of(process).die()
        self._living.clear()

    def find_contact(self, tenant_id, contact_id):
        """Return a contact, also one that was deleted."""
        return self._contacts.get(contact_id) or find_line_user(self.conn, tenant_id, contact_id)

    def remember(self, contact):
        """Keep a contact that is about to be deleted."""
        self._contacts[contact.id] = contact

    def find_link(self, tenant_id, link_id):
        """Return a link."""
        return tracking.find_link_by_id(self.conn, tenant_id=tenant_id, link_id=link_id)

    def _alive(self, name):
        found = self._living.get(name)
        if found is None or _process_of(found).dead:
            process = self._make_process()
            found = Worker(process, self._caller) if name in ("worker", "thief") else process
            self._living[name] = found
        return found


class _Single(Process):
    """A process that also works with one session of its own."""

    _session = None

    def connect_once(self):
        """Return the session, opened at the first call."""
        if self._session is None:
            self._session = self.connect()
        return self._session


def _process_of(found):
    return found.process if isinstance(found, Worker) else found
