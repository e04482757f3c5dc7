"""Faults as deeds: each strikes, lasts, and is mended; those of one target come one after another.

Several targets may be struck at once.
"""

import random
import threading
import time
from contextlib import contextmanager

from tests.chaos.evidence import Struck
from tests.servers.faulty_proxy import ANSWERS, QUESTIONS

# What a transaction of several statements ends with; what stands alone; or whatever comes next.
_LOST = (b"COMMIT", b"COMMIT", b"UPDATE", b"INSERT", b"")
_WAYS = {"silent database": (), "silent questions": (QUESTIONS,), "silent answers": (ANSWERS,)}


class Strikes:
    """Carries out a plan against a world."""

    def __init__(self, faults, *, seed, world, servers, receiver, timeline):
        self._world = world
        self._servers = servers
        self._receiver = receiver
        self._timeline = timeline
        self._random = random.Random(seed)
        self._faults = faults
        self.struck = []
        self.troubles = []
        self._end = threading.Event()
        self._threads = []

    def begin(self):
        """Let every target have its faults, from now on."""
        for target in sorted({fault.target for fault in self._faults}):
            mine = sorted((f for f in self._faults if f.target == target), key=lambda f: f.at)
            thread = threading.Thread(target=self._strike_all, args=(mine, time.time()))
            self._threads.append(thread)
            thread.start()

    def finish(self):
        """Wait until the last is mended."""
        for thread in self._threads:
            thread.join()

    def stop(self):
        """Strike no more."""
        self._end.set()
        self.finish()

    def _strike_all(self, faults, began_at):
        last = max(fault.at for fault in self._faults)
        for fault in faults:
            if self._end.wait(max(began_at + fault.at - time.time(), 0)):
                return
            if time.time() > began_at + last + 5:  # what is this late was held up: enough of it
                self._timeline.write("left out", f"{fault.kind}: {fault.target}")
                continue
            try:
                self._strike(fault)
            except Exception as error:
                self.troubles.append(f"{fault.kind} of {fault.target}: {error!r}")
                self._timeline.write("trouble", self.troubles[-1])

    def _strike(self, fault):
        began = time.time()
        self._timeline.write("strikes", f"{fault.kind}: {fault.target}, {fault.seconds:.1f} s")
        with self._deed(fault):
            self._end.wait(fault.seconds)
        ended = time.time()
        self._timeline.write("is mended", f"{fault.kind}: {fault.target}")
        self.struck.append(
            Struck(kind=fault.kind, target=fault.target, began_at=began, ended_at=ended)
        )

    def _deed(self, fault):
        if fault.target == "postgres":
            return self._of_postgres(fault.kind)
        if fault.target == "rabbit":
            return self._of_rabbit(fault.kind)
        if fault.target == "redis":
            return self._of_redis(fault.kind)
        if fault.target == "receiver":
            return self._of_receiver(fault.kind)
        if fault.kind in ("kill", "stop") or fault.kind.startswith("freeze"):
            return self._of_process(fault.kind, fault.target)
        return self._of_ways(fault.kind, self._world.links[fault.target])

    @contextmanager
    def _of_process(self, kind, name):
        if kind.startswith("freeze"):
            self._world.freeze(name)
            yield
            self._world.thaw(name)
            return
        if kind == "kill":
            self._world.kill(name)
        elif (status := self._world.stop(name)) != 0:
            self.troubles.append(f"{name} was told to stop and ended with {status}")
            self._world.kill(name)
        yield
        self._world.start(name)

    @contextmanager
    def _of_ways(self, kind, ways):
        if kind == "lost answer":
            ways["postgres"].lose_answer_to(self._random.choice(_LOST))
            yield
            ways["postgres"].lose_nothing()
        elif kind in _WAYS:
            ways["postgres"].be_silent(*_WAYS[kind])
            yield
            ways["postgres"].speak()
        else:
            what, _, server = kind.partition(" ")
            proxy = ways["postgres" if server == "database" else server]
            proxy.cut() if what == "cut" else proxy.be_silent()
            yield
            proxy.speak()

    @contextmanager
    def _of_postgres(self, kind):
        if kind == "crash of a backend":
            self._servers.postgres.crash_backend(self._random)
            yield
            return
        self._servers.postgres.crash()
        yield
        self._servers.postgres.start()
        self._world.aim()

    @contextmanager
    def _of_rabbit(self, kind):
        rabbit = self._servers.rabbit
        if kind == "emptied":
            rabbit.empty()
            yield
        elif kind == "connections closed":
            rabbit.close_connections()
            yield
        else:
            rabbit.stop() if kind == "restart" else rabbit.crash()
            yield
            if kind == "crash, back empty":
                rabbit.forget()
                rabbit.start_anew()
            else:
                rabbit.start()
        # A queue is on disk some seconds after it was made: killed before, it is of no use.
        self._end.wait(10)

    @contextmanager
    def _of_redis(self, kind):
        if kind == "emptied":
            self._servers.empty_redis()
            yield
            return
        self._servers.redis.stop()
        yield
        self._servers.redis.start()

    @contextmanager
    def _of_receiver(self, kind):
        self._receiver.mood = kind
        yield
        self._receiver.mood = None
