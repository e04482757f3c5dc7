"""What a run has to show: what was asked for, what came of it, and what struck meanwhile.

Plain values, so that the checker can be given any, also such as no run would ever bring. All times
are seconds of one clock: the machine's, which is the database's too.
"""

from dataclasses import dataclass, field
from typing import Literal

# What may become of an identity beside being done.
#   never      it fails for no reason at all
#   refused    its receiver says no: it fails, and only so
#   once       not sent again when nobody knows whether it was received: a fault lets it fail
#   cancelled  somebody cancelled it: no effect
Fate = Literal["never", "refused", "once", "cancelled"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """An identity: its tag, and by sort how many effects it is to have, and not before when."""

    tag: str
    effects: dict[str, int]
    not_before: dict[str, float]
    fate: Fate = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Something in our database (a message, a record), or a call that came to the receiver."""

    sort: str
    tag: str
    at: float
    told: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as its receiver saw it.

    ``outcome``: ``done`` (it acted and said so), ``lost`` (it acted and its answer did not leave),
    ``refused`` (it did not act). ``delivery`` is the number of the start that made it.
    """

    tag: str
    key: str
    delivery: int
    at: float
    outcome: Literal["done", "lost", "refused"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A status that was left for another; None is outside of the table."""

    at: float
    table: str
    id: int
    old: str | None
    new: str | None
    starts: int = 0
    worker_id: int | None = None
    due_at: float | None = None
    announcements: int = 0

    @property
    def is_start(self) -> bool:
        """Whether a worker took it."""
        return self.old == "pending" and self.new in ("running", "processing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A row that failed or was cancelled."""

    table: str
    id: int
    tag: str | None
    status: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """A fault, from when to when it lasted."""

    kind: str
    target: str
    began_at: float
    ended_at: float


@dataclass(slots=True, kw_only=True)
class Evidence:
    """All of it. ``rows`` has the row (table, id) of an idempotency key, ``workers`` the process
    of a worker's id, ``clicked_in_time`` the tags whose click was taken in before the deadline."""

    expected: list[Expected] = field(default_factory=list)
    effects: list[Effect] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    struck: list[Struck] = field(default_factory=list)
    rows: dict[str, tuple[str, int]] = field(default_factory=dict)
    workers: dict[int, str] = field(default_factory=dict)
    clicked_in_time: set[str] = field(default_factory=set)
    violations: list[str] = field(default_factory=list)
    open_rows: list[str] = field(default_factory=list)
    stale_seconds: float = 300.0
    round_seconds: float = 60.0

    @property
    def last_fault_at(self) -> float:
        """When the last fault was over."""
        return max((one.ended_at for one in self.struck), default=0.0)
