"""What a run breaks of the promises: pure functions of its evidence.

A *double* is an effect that was had before. Of one in our database there is no excuse. A call may
come again, under the same key, if between the claim that made the earlier one and the claim that
made the later one its receiver lost the answer, or a fault struck the worker that made the earlier
one (killed, frozen, or its way to the database cut, silent or without answers) or the database
itself, a second of its aftermath included. Nothing else excuses it: no fault of another worker, of
a scanner, of the API, the broker or Redis, and not the end of a worker that was told to stop.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from tests.chaos.evidence import Call, Evidence, Move, Struck

KINDS = (
    "lost",
    "early",
    "internal double",
    "unexcused double",
    "wrongly failed",
    "illegal move",
    "late start",
    "invariant",
)
DATABASE = "postgres"

_PAGE = Path(__file__).parents[2] / "docs/state-machines.md"
_DRAWING = re.compile(r"^## (\w+)$.*?```mermaid\n(.*?)```", re.MULTILINE | re.DOTALL)
_ARROW = re.compile(r"^ +(\S+) --> (\S+) : \w+$", re.MULTILINE)
_OUTSIDE = "[*]"
# Killed and told to stop are two: who is told to stop ends its calls.
_NO_EXCUSE = ("stop", "cut broker", "silent broker", "cut redis", "silent redis")
_AGAIN_SECONDS = 60.0
_UNKNOWN = "outcome is unknown"
# What a fault leaves behind for a moment: a process that comes up, a session that is opened anew.
_AFTERMATH_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Breach:
    """A promise that was broken, and by what."""

    kind: str
    found: str


def find_breaches(evidence: Evidence) -> list[Breach]:
    """Return everything that contradicts a promise, in the order of ``KINDS``."""
    counted = Counter((one.tag, one.sort) for one in evidence.effects)
    called = _calls_by_key(evidence.calls)
    found = [
        *_lost(evidence, counted, called),
        *_early(evidence),
        *_doubles_within(evidence, counted),
        *_doubled_calls(evidence, called),
        *_wrongly_failed(evidence),
        *_illegal_moves(evidence.moves),
        *_late_starts(evidence),
        *(Breach(kind="invariant", found=one) for one in evidence.violations),
    ]
    return sorted(found, key=lambda breach: KINDS.index(breach.kind))


def count_excused(evidence: Evidence) -> tuple[int, int]:
    """Return how many calls came again with an excuse: of their receiver, and of other faults."""
    called = _calls_by_key(evidence.calls)
    again = [first for calls in called.values() for first, _ in pairwise(calls)]
    lost = sum(first.outcome == "lost" for first in again)
    unexcused = [first for first, _ in _without_excuse(evidence, called)]
    lost_unexcused = sum(first.outcome == "lost" for first in unexcused)
    return lost - lost_unexcused, len(again) - len(unexcused) - lost + lost_unexcused


def drawn_arrows() -> dict[str, set[tuple[str | None, str | None]]]:
    """Return by table the moves that docs/state-machines.md draws; None is outside."""
    return {
        table: {
            (None if old == _OUTSIDE else old, None if new == _OUTSIDE else new)
            for old, new in _ARROW.findall(drawing)
        }
        for table, drawing in _DRAWING.findall(_PAGE.read_text("utf-8"))
    }


def latest_start_after_faults(evidence: Evidence) -> float:
    """Return how long after the last fault the last start came that was due before or by then."""
    waits = (start.at - max(evidence.last_fault_at, due) for start, due in _first_starts(evidence))
    return max((0.0, *waits))


def _calls_by_key(calls: Iterable[Call]) -> dict[str, list[Call]]:
    """Return by key the calls upon which the receiver acted, in the order of their starts."""
    by_key: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        if call.outcome != "refused":
            by_key[call.key].append(call)
    return {key: sorted(some, key=lambda c: (c.delivery, c.at)) for key, some in by_key.items()}


def _lost(
    evidence: Evidence, counted: Counter[tuple[str, str]], called: dict[str, list[Call]]
) -> Iterator[Breach]:
    acted = {call.tag for calls in called.values() for call in calls}
    failed = {one.tag for one in evidence.ended}
    for one in evidence.expected:
        if one.fate == "refused" and one.tag not in failed:
            yield _breach("lost", f"{one.tag}: its failure is not told")
        if one.fate == "refused" or (one.fate == "once" and one.tag in failed):
            continue
        for sort, wanted in one.effects.items():
            had = int(one.tag in acted) if sort == "call" else counted[one.tag, sort]
            if had < wanted:
                yield _breach("lost", f"{one.tag}: {sort} {had} of {wanted}")
    yield from (_breach("lost", f"{row} has not ended") for row in evidence.open_rows)
    yield from _lost_clicks(evidence)


def _lost_clicks(evidence: Evidence) -> Iterator[Breach]:
    for effect in evidence.effects:
        clicked = effect.sort == "branch" and effect.tag in evidence.clicked_in_time
        if clicked and effect.told != "clicked":
            yield _breach("lost", f"{effect.tag}: clicked in time, and taken for {effect.told}")


def _early(evidence: Evidence) -> Iterator[Breach]:
    known = {one.tag: one for one in evidence.expected}
    had = [(one.tag, one.sort, one.at) for one in evidence.effects]
    had += [(call.tag, "call", call.at) for call in evidence.calls if call.outcome != "refused"]
    for tag, sort, at in had:
        one = known.get(tag)
        if one is not None and (sort not in one.effects or one.fate == "cancelled"):
            yield _breach("early", f"{tag}: a {sort} that nobody asked for")
        elif one is not None and (early := one.not_before.get(sort, 0.0) - at) > 0:
            yield _breach("early", f"{tag}: {sort} {early:.3f} s before its time")
    for move in evidence.moves:
        if move.is_start and move.due_at is not None and move.at < move.due_at:
            early = move.due_at - move.at
            yield _breach("early", f"{move.table} {move.id}: begun {early:.3f} s before its time")


def _doubles_within(evidence: Evidence, counted: Counter[tuple[str, str]]) -> Iterator[Breach]:
    wanted = {one.tag: one.effects for one in evidence.expected}
    for (tag, sort), had in counted.items():
        if had > max(wanted.get(tag, {}).get(sort, 1), 1):
            yield _breach("internal double", f"{tag}: {had} times a {sort}")


def _doubled_calls(evidence: Evidence, called: dict[str, list[Call]]) -> Iterator[Breach]:
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for key, calls in called.items():
        keys[calls[0].tag].add(key)
    for first, second in _without_excuse(evidence, called):
        found = f"{first.tag}: by starts {first.delivery} and {second.delivery}"
        yield _breach("unexcused double", found)
    for tag, several in keys.items():
        if len(several) > 1:
            yield _breach("unexcused double", f"{tag}: under {len(several)} keys")


def _without_excuse(
    evidence: Evidence, called: dict[str, list[Call]]
) -> Iterator[tuple[Call, Call]]:
    starts = _starts(evidence)
    once = {one.tag for one in evidence.expected if one.fate == "once"}
    for first, second in (pair for calls in called.values() for pair in pairwise(calls)):
        if first.tag in once or not _is_excused(evidence, starts, first, second):
            yield first, second


def _starts(evidence: Evidence) -> dict[tuple[str, int, int], Move]:
    return {(m.table, m.id, m.starts): m for m in evidence.moves if m.is_start}


def _is_excused(
    evidence: Evidence, starts: dict[tuple[str, int, int], Move], first: Call, second: Call
) -> bool:
    """Whether a second call was to be: see above."""
    if first.delivery == second.delivery:
        return False
    if first.outcome == "lost":
        return True
    row = evidence.rows.get(first.key)
    if row is None:
        return False
    claim, again = starts.get((*row, first.delivery)), starts.get((*row, second.delivery))
    if claim is None or again is None:
        return False
    hit = {evidence.workers.get(claim.worker_id or 0), DATABASE}
    return any(_struck_between(fault, hit, claim.at, again.at) for fault in evidence.struck)


def _struck_between(fault: Struck, targets: set[str | None], began: float, ended: float) -> bool:
    return (
        fault.target in targets
        and fault.kind not in _NO_EXCUSE
        and fault.began_at <= ended
        and began <= fault.ended_at + _AFTERMATH_SECONDS
    )


def _wrongly_failed(evidence: Evidence) -> Iterator[Breach]:
    fates = {one.tag: one.fate for one in evidence.expected}
    trouble = {call.tag for call in evidence.calls if call.outcome != "done"}
    for one in evidence.ended:
        fate = fates.get(one.tag or "", "never")
        right = {
            "never": False,
            "refused": one.status == "failed" and "answered 404" in one.error,
            "cancelled": one.status == "cancelled",
            "once": _UNKNOWN in one.error
            and (one.tag in trouble or _lost_its_worker(evidence, one.table, one.id)),
        }[fate]
        if not right:
            found = f"{one.table} {one.id} ({one.tag}): {one.status}: {one.error}"
            yield _breach("wrongly failed", found)


def _lost_its_worker(evidence: Evidence, table: str, id: int) -> bool:
    """Whether a fault struck who had it, or the database, while it was held."""
    held_since = None
    for move in (one for one in evidence.moves if (one.table, one.id) == (table, id)):
        if move.is_start:
            held_since = move
        elif held_since is not None:
            hit = {evidence.workers.get(held_since.worker_id or 0), DATABASE}
            began = held_since.at
            if any(_struck_between(fault, hit, began, move.at) for fault in evidence.struck):
                return True
            held_since = None
    return False


def _illegal_moves(moves: Iterable[Move]) -> Iterator[Breach]:
    arrows = drawn_arrows()
    last: dict[tuple[str, int], str | None] = {}
    for move in moves:
        before = last.get((move.table, move.id))
        if (move.old, move.new) not in arrows[move.table] or move.old != before:
            found = f"{move.table} {move.id}: {before}, {move.old} -> {move.new}"
            yield _breach("illegal move", found)
        last[move.table, move.id] = move.new


def _first_starts(evidence: Evidence) -> Iterator[tuple[Move, float]]:
    """Yield every first start with when it was due: by its own time, or by its birth."""
    born: dict[tuple[str, int], float] = {}
    for move in evidence.moves:
        if move.old is None:
            born[move.table, move.id] = move.at
        elif move.is_start and move.starts == 1:
            due = max(move.due_at or 0.0, born.get((move.table, move.id), 0.0))
            yield move, due


def _late_starts(evidence: Evidence) -> Iterator[Breach]:
    """What was announced in vain is announced again by age: that is its way forward."""
    for start, due in _first_starts(evidence):
        age = _AGAIN_SECONDS * 2 ** (start.announcements - 2) if start.announcements > 1 else 0.0
        allowed = max(evidence.stale_seconds, age) + 2 * evidence.round_seconds
        late = start.at - max(due, evidence.last_fault_at) - allowed
        if late > 0:
            found = f"{start.table} {start.id}: {late + allowed:.1f} s after the last fault"
            yield _breach("late start", found)


def _breach(kind: str, found: str) -> Breach:
    return Breach(kind=kind, found=found)
