"""A worker in a process that may die: its own parts, in an order that is always the same.

What runs on threads of its own in the product is done here when it is its turn: those who execute
go on one at a time, until each waits for a commit; then a group is written.
"""

import threading
from collections.abc import Iterator
from functools import partial

from services.worker.committer import Committer
from services.worker.definitions import Definitions
from services.worker.executor import Executor
from services.worker.holdings import Holdings
from services.worker.intake import Claimer
from services.worker.lease import Liveness
from services.worker.performer import Performer
from shared.actions.action import Services
from shared.domain.work import Reference
from shared.queries.announcements import announce_batch
from shared.tracking.click_store import PostgresClicks
from tests.integration.workflows.mortal import Killed, Process

KIND = "scheduled_action"
PUBLIC_URL = "https://links.example"

_WRITES = 5
_present = threading.local()


class Worker:
    """A worker that has taken its lock."""

    def __init__(self, process: Process, caller) -> None:
        self.process = process
        self._liveness = Liveness(process.connect, roles=("action",), threads=4)
        self.id = self._liveness.worker_id
        holdings = Holdings()
        committer = _Committer(process)
        clicks = PostgresClicks()
        services = Services(
            http=_Caller(process, caller),
            gateway_url=None,
            deadline_seconds=10,
            clicks=clicks,
            public_url=PUBLIC_URL,
        )
        performer = Performer(
            pool=process,
            committer=committer,
            services=services,
            time=self._liveness.time,
            may_begin=lambda: True,
        )
        self._executor = Executor(
            performer=performer,
            committer=committer,
            holdings=holdings,
            definitions=Definitions(process),
            clicks=clicks,
            time=self._liveness.time,
        )
        self._claimer = Claimer(
            process.connect, worker_id=self.id, holdings=holdings, lease_seconds=300
        )
        self._holdings = holdings
        self._committer = committer

    def take_due(self, *, limit: int, fairly: bool) -> int:
        """Claim what is due, as a worker does without a broker, and execute it."""
        claimed = [
            work
            for urgent in (True, False)
            for work in self._claimer.claim_due(
                kind=KIND, urgent=urgent, limit=limit, fairly=fairly
            )
        ]
        return self._execute(claimed)

    def take_announced(self, messages) -> int:
        """Claim what messages name, each of which comes twice, and execute it."""
        claimed = [
            work
            for references in messages
            for _ in range(2)
            for work in self._claimer.claim(KIND, references)
        ]
        return self._execute(claimed)

    def _execute(self, claimed) -> int:
        jobs = [partial(self._executor.execute, self._holdings.get(work)) for work in claimed]
        _together(jobs, write=self._committer.write)
        self.process.check()
        return len(jobs)


def announced(scanner, *, limit: int) -> Iterator[list[Reference]]:
    """Give what a scanner announces: a message for each queue."""
    for urgent in (True, False):
        rows = announce_batch(scanner, kind=KIND, urgent=urgent, limit=limit)
        yield [Reference(id=row.id, token=row.token) for row in rows]


class _Caller:
    """Sends calls by the product's own caller; its process may die before and after each."""

    def __init__(self, process, caller) -> None:
        self._process = process
        self._caller = caller

    def send(self, call, *, deadline_seconds):
        self._process.meet("call")
        answer = self._caller.send(call, deadline_seconds=deadline_seconds)
        self._process.meet("answer")
        return answer


class _Committer(Committer):
    """The product's committer without its thread: ``write`` writes what was submitted."""

    def __init__(self, process) -> None:
        super().__init__(process.connect)
        self._process = process
        self._closing = True  # nobody else comes while it writes: it waits for no company

    def submit(self, step, *, awaited=True):
        return _Written(super().submit(step, awaited=awaited), self._process)

    def write(self) -> None:
        for _ in range(_WRITES):
            if not self._entries:
                return
            self._entries = self._write(self._next_group()) + self._entries
        raise AssertionError("a step cannot be written")


class _Written:
    """Whether a step was written; who asks lets the others go on first."""

    def __init__(self, future, process) -> None:
        self._future = future
        self._process = process

    def result(self) -> bool:
        _present.hand.stand_still()
        self._process.check()
        return self._future.result(timeout=0)


class _Hand(threading.Thread):
    """Somebody who executes, and moves only when it is told to."""

    def __init__(self, job) -> None:
        super().__init__(daemon=True)
        self._job = job
        self._turn = threading.Semaphore(0)
        self._still = threading.Semaphore(0)
        self.ended = False
        self.error: BaseException | None = None
        self.start()

    def run(self) -> None:
        self._turn.acquire()
        _present.hand = self
        try:
            self._job()
        except BaseException as error:
            self.error = error
        self.ended = True
        self._still.release()

    def go_on(self) -> None:
        """Let it go on until it waits for a commit, or ends."""
        self._turn.release()
        self._still.acquire()

    def stand_still(self) -> None:
        self._still.release()
        self._turn.acquire()


def _together(jobs, *, write) -> None:
    """Do all jobs, in turns; what they submit is written when each has ended or waits for it."""
    hands = [_Hand(job) for job in jobs]
    moving = hands
    while moving:
        for hand in moving:
            hand.go_on()
        moving = [hand for hand in moving if not hand.ended]
        try:
            write()
        except Killed:
            continue  # they find out by themselves
    for hand in hands:
        hand.join()
        if hand.error is not None and not isinstance(hand.error, Killed):
            raise hand.error
