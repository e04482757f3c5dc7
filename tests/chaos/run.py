"""One run: an installation at work while its parts are killed and cut; then the verdict."""

import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread

from psycopg import IsolationLevel

from shared.lifecycle import wait_until
from tests.chaos import witness
from tests.chaos.checker import KINDS, count_excused, find_breaches, latest_start_after_faults
from tests.chaos.moves import INSTALL
from tests.chaos.plan import plan
from tests.chaos.receiver import running_receiver
from tests.chaos.servers import running_servers
from tests.chaos.strikes import Strikes
from tests.chaos.timeline import Timeline
from tests.chaos.workload import Workload
from tests.chaos.world import World

_READY_SECONDS = 120.0
_OBSERVE_SECONDS = 1.0
_VERIFY_EVERY = 20
_TIMELINE = "timeline.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is to be; the times of the installation are short, so that faults outlast them.

    ``settle_seconds``: how long it may take to end what there is after the last fault. An attempt
    that failed for now waits up to two minutes for the next one.
    """

    seed: int
    transport: str
    identities: int
    seconds: float
    faults: int
    folder: Path
    lease_seconds: int = 30
    round_seconds: int = 15
    waits: tuple[int, int] = (8, 15)
    settle_seconds: float = 600.0

    def settings(self, receiver):
        return {
            "LEASE_SECONDS": str(self.lease_seconds),
            "RENEW_SECONDS": str(self.lease_seconds // 3),
            "ROUND_SECONDS": str(self.round_seconds),
            "ACTION_DEADLINE_SECONDS": "5",
            "GRACE_SECONDS": "20",
            "WORKER_THREADS": "8",
            "ALLOWED_PORTS": str(receiver.port),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What came of a run. It is void, whatever else it says, if the driver itself had troubles."""

    options: Options
    breaches: list
    troubles: list
    figures: dict

    @property
    def is_sound(self):
        return not self.breaches and not self.troubles


def run(options):
    """Carry out a run and return its report; everything about it is in its folder.

    What an earlier run left there goes. Raises ValueError for a folder that has anything else.
    """
    clear(options.folder)
    with ExitStack() as stack:
        timeline = Timeline(options.folder / _TIMELINE)
        stack.callback(timeline.close)
        timeline.write("run", f"{options}")
        receiver = stack.enter_context(running_receiver(options.seed))
        servers = stack.enter_context(running_servers(options.transport))
        world = World(servers, logs=options.folder, settings=options.settings(receiver))
        stack.callback(world.close)
        return _Run(options, timeline, receiver, servers, world).carry_out()


def clear(folder):
    """Make it an empty folder, unless it has something that is not of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()) and not (folder / _TIMELINE).is_file():
        raise ValueError(f"{folder} is not empty, and not of an earlier run")
    for old in folder.iterdir():
        old.unlink()


class _Run:
    def __init__(self, options, timeline, receiver, servers, world):
        self._options = options
        self._timeline = timeline
        self._receiver = receiver
        self._servers = servers
        self._world = world
        self._violations = {}
        seed, seconds = options.seed, options.seconds
        self._workload = Workload(
            seed=seed,
            identities=options.identities,
            seconds=seconds,
            waits=options.waits,
            world=world,
            receiver=receiver,
            timeline=timeline,
        )
        faults = plan(
            seed,
            seconds=seconds,
            count=options.faults,
            transport=options.transport,
            lease_seconds=options.lease_seconds,
        )
        self._strikes = Strikes(
            faults,
            seed=seed,
            world=world,
            servers=servers,
            receiver=receiver,
            timeline=timeline,
        )

    def carry_out(self):
        with self._servers.postgres.session() as conn:
            conn.execute(INSTALL)
        self._world.start_all()
        assert self._world.wait_until_ready(_READY_SECONDS), self._world.installation.logs()
        self._workload.author()
        self._timeline.write("begins")
        began_at = time.time()
        with self._observed():
            self._workload.begin()
            self._strikes.begin()
            self._strikes.finish()
            self._timeline.write("last fault", "is mended")
            seconds = self._options.settle_seconds
            self._workload.finish_sending(seconds)
            settled = wait_until(self._has_settled, seconds=seconds, every_seconds=1.0)
        self._timeline.write("settled" if settled else "not settled")
        return self._report(time.time() - began_at)

    @contextmanager
    def _observed(self):
        """Look at it every second meanwhile, in a thread of its own."""
        end = Event()

        def observe():
            looks = 0
            while not end.wait(_OBSERVE_SECONDS):
                for name, status in self._world.start_what_ended().items():
                    self._timeline.write("ended itself", f"{name}, with {status}")
                looks += 1
                if looks % 5 == 0:
                    self._look(verify=looks % _VERIFY_EVERY == 0)

        thread = Thread(target=observe)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
            self._strikes.stop()
            self._workload.stop()

    def _look(self, *, verify):
        told = witness.ask(self._servers.postgres, witness.counts)
        calls = f"calls {len(self._receiver.calls)}, sent {len(self._workload.expected)}"
        self._timeline.write("is", f"{told or 'database away'}, {calls}")
        if verify:
            for one in witness.ask(self._servers.postgres, witness.violations) or []:
                if one not in self._violations:
                    self._timeline.write("violation", one)
                self._violations[one] = None

    def _has_settled(self):
        return witness.ask(self._servers.postgres, self._is_over) or False

    def _is_over(self, conn):
        """Whether nothing is open, and every message and record is there."""
        if witness.open_rows(conn):
            return False
        had = Counter((one.tag, one.sort) for one in witness.effects(conn))
        return all(
            sort == "call" or had[one.tag, sort] >= wanted
            for one in self._workload.expected
            for sort, wanted in one.effects.items()
        )

    def _report(self, lasted):
        grace = 2 * self._options.round_seconds + self._options.lease_seconds
        with self._servers.postgres.session() as conn:
            for one in witness.violations(conn, settled_seconds=grace):
                self._violations[one] = None
            conn.isolation_level = IsolationLevel.REPEATABLE_READ
            with conn.transaction():
                evidence = witness.gather(
                    conn,
                    workload=self._workload,
                    receiver=self._receiver,
                    strikes=self._strikes,
                    world=self._world,
                    during=self._violations,
                )
        breaches = find_breaches(evidence)
        for breach in breaches:
            self._timeline.write("breach", f"{breach.kind}: {breach.found}")
        windows = sum(one.sort == "window" for one in evidence.effects)
        lost, excused = count_excused(evidence)
        identities = len(evidence.expected) + windows
        figures = {
            "identities": identities,
            "faults": len(evidence.struck),
            "lasted s": round(lasted),
            "processes that ended by themselves": len(self._world.ended_themselves),
            "calls": len(evidence.calls),
            "calls again, the receiver's answer lost": lost,
            "calls again, excused by other faults": f"{excused} ({excused / identities:.2%})",
            "last start after the last fault s": f"{latest_start_after_faults(evidence):.1f}"
            f" (at most {evidence.stale_seconds + 2 * evidence.round_seconds:.0f})",
        }
        return Report(
            options=self._options,
            breaches=breaches,
            troubles=[*self._strikes.troubles, *self._workload.troubles],
            figures=figures,
        )


def table_of(report):
    """Return the report as text: figures, promises with their breaches, and where to read on."""
    broken = Counter(breach.kind for breach in report.breaches)
    rows = [*report.figures.items(), *((kind, broken[kind]) for kind in KINDS)]
    rows.append(("troubles of the driver", len(report.troubles)))
    width = max(len(name) for name, _ in rows)
    lines = [f"{name:<{width}}  {value}" for name, value in rows]
    lines += [f"BROKEN {breach.kind}: {breach.found}" for breach in report.breaches[:40]]
    lines += [f"TROUBLE {trouble}" for trouble in report.troubles[:20]]
    lines.append(f"timeline and logs: {report.options.folder}")
    return "\n".join(lines)
