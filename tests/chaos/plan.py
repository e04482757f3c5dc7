"""Which faults strike when: drawn from a seed before anything runs."""

import random
from dataclasses import dataclass

from tests.chaos.receiver import MOODS

PROCESSES = ("api", "scanner-1", "scanner-2", "worker-1", "worker-2")
_WORKERS, _SCANNERS = PROCESSES[3:], PROCESSES[1:3]
_SERVICES = (*_WORKERS, *_SCANNERS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault to come: what, whom it strikes, when (s from the beginning), and how long."""

    kind: str
    target: str
    at: float
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    name: str
    targets: tuple[str, ...]
    weight: int
    seconds: tuple[float, float]


def kinds(transport: str, *, lease_seconds: float) -> list[_Kind]:
    """Return what may happen, to whom, how often beside the others, and how long."""

    def kind(name, targets, weight, shortest, longest):
        return _Kind(name=name, targets=targets, weight=weight, seconds=(shortest, longest))

    found = [
        kind("kill", _WORKERS, 12, 0.2, 3),
        kind("kill", (*_SCANNERS, "api"), 7, 0.2, 3),
        kind("stop", _SERVICES, 4, 0.2, 2),
        kind("freeze", _SERVICES, 8, 0.5, 5),
        kind("freeze", ("api",), 2, 0.5, 3),
        kind("freeze beyond the lease", _WORKERS, 2, 1.1 * lease_seconds, 1.4 * lease_seconds),
        kind("cut database", PROCESSES, 8, 0, 0),
        kind("lost answer", _WORKERS, 8, 0.5, 4),
        kind("lost answer", (*_SCANNERS, "api"), 6, 0.5, 4),
        kind("silent database", PROCESSES, 6, 1, 7),
        kind("silent questions", _SERVICES, 3, 1, 6),
        kind("silent answers", _SERVICES, 3, 1, 6),
        kind("cut redis", PROCESSES[:1] + _WORKERS, 2, 0, 0),
        kind("silent redis", PROCESSES[:1] + _WORKERS, 2, 1, 6),
        kind("crash", ("postgres",), 4, 0.2, 4),
        kind("crash of a backend", ("postgres",), 4, 0, 0),
        kind("emptied", ("redis",), 3, 0, 0),
        kind("crash", ("redis",), 4, 0.5, 6),
        *(kind(mood, ("receiver",), 4, 1, 6) for mood in MOODS),
    ]
    if transport == "rabbitmq":
        found += [
            kind("cut broker", _SERVICES, 5, 0, 0),
            kind("silent broker", _SERVICES, 5, 1, 7),
            kind("connections closed", ("rabbit",), 2, 0, 0),
            kind("emptied", ("rabbit",), 3, 0, 0),
            kind("crash", ("rabbit",), 3, 0.5, 6),
            kind("restart", ("rabbit",), 1, 0.5, 4),
            kind("crash, back empty", ("rabbit",), 2, 0.5, 4),
        ]
    return found


def plan(
    seed: int, *, seconds: float, count: int, transport: str, lease_seconds: float
) -> list[Fault]:
    """Return ``count`` faults over the time, each kind at least once where there are enough.

    None lasts beyond the end, and a short run has none that would be all of it.
    """
    dice = random.Random(seed)
    known = [
        kind
        for kind in kinds(transport, lease_seconds=lease_seconds)
        if kind.seconds[1] <= seconds / 3
    ]
    drawn = dice.sample(known, min(len(known), count))
    weights = [kind.weight for kind in known]
    drawn += dice.choices(known, weights, k=count - len(drawn))
    dice.shuffle(drawn)
    faults = []
    for number, kind in enumerate(drawn):
        at = (number + dice.random()) * seconds / count
        lasts = min(dice.uniform(*kind.seconds), seconds - at)
        faults.append(Fault(kind=kind.name, target=dice.choice(kind.targets), at=at, seconds=lasts))
    return faults
