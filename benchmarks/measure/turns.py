"""Comparing things in one run: they take turns (A B A B ...), so that all meet the same machine."""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


def _nothing() -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One of the things compared.

    ``work`` returns how many units it did; ``prepare`` goes before each turn and is not measured.
    """

    name: str
    work: Callable[[], int]
    prepare: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """What a side took: wall time as the median of its turns, CPU time as their mean."""

    name: str
    units: int
    turn_seconds: float
    cpu_turn_seconds: float

    @property
    def unit_us(self) -> float:
        """Wall time of a unit in microseconds."""
        return self.turn_seconds / self.units * 1e6

    @property
    def cpu_unit_us(self) -> float:
        """CPU time of a unit in microseconds."""
        return self.cpu_turn_seconds / self.units * 1e6

    @property
    def units_per_second(self) -> float:
        """How many units a second of wall time takes."""
        return self.units / self.turn_seconds


def in_turns(sides: Sequence[Side], *, rounds: int, cpu: Callable[[], float]) -> list[Figure]:
    """Return a figure for each side, after a turn of each that does not count.

    ``cpu`` reads the CPU seconds of all that works. Every turn of a side does as many units.
    """
    walls: list[list[float]] = [[] for _ in sides]
    cpus: list[list[float]] = [[] for _ in sides]
    units = [0 for _ in sides]
    for turn in range(rounds + 1):
        for index, side in enumerate(sides):
            side.prepare()
            gc.collect()
            cpu_before, before = cpu(), time.perf_counter()
            units[index] = side.work()
            if turn:
                walls[index].append(time.perf_counter() - before)
                cpus[index].append(cpu() - cpu_before)
    return [
        Figure(
            name=side.name,
            units=units[index],
            turn_seconds=statistics.median(walls[index]),
            cpu_turn_seconds=statistics.fmean(cpus[index]),
        )
        for index, side in enumerate(sides)
    ]
