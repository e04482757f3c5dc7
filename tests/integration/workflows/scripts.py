"""What happens to a workspace with a workflow, as values: drawn at random, told when it fails."""

from dataclasses import dataclass
from typing import Literal

from hypothesis import strategies as st

from tests.integration.workflows.trees import SMALL_TREES, TREES


@dataclass(frozen=True, slots=True)
class Kill:
    """The process dies, as by kill -9."""


@dataclass(frozen=True, slots=True)
class Steal:
    """The process stands still beyond its lease, another worker takes over, then it goes on."""

    limit: int


@dataclass(frozen=True, slots=True)
class Click:
    """Somebody clicks a link: now, exactly at the deadline of its wait, or just before that."""

    link: int
    moment: Literal["now", "at", "before"]


@dataclass(frozen=True, slots=True)
class Strike:
    """After ``steps`` of whatever process, and before the next, something happens to it.

    Counted are those that begin with ``kind``: of a statement, of COMMIT, call or answer.
    """

    steps: int
    fate: Kill | Steal | Click
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """An event of a contact, or of none: the rule starts the workflow, and a plain wait."""

    contact: int | None
    vip: bool


@dataclass(frozen=True, slots=True)
class Work:
    """A worker takes what is due, by itself or from messages, and executes it."""

    limit: int
    way: Literal["due", "fairly", "announced"]


@dataclass(frozen=True, slots=True)
class Pass:
    """The time comes that something waits for; None: all of it."""

    which: int | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """A scanner takes back what lost its worker, and unlocks what was clicked."""


@dataclass(frozen=True, slots=True)
class Level:
    """A contact's attribute changes."""

    contact: int
    level: int | None


@dataclass(frozen=True, slots=True)
class Forget:
    """A contact is deleted."""

    contact: int


@dataclass(frozen=True, slots=True)
class NewVersion:
    """Somebody saves the workflow with other nodes."""


Happening = Event | Work | Click | Pass | Sweep | Level | Forget | NewVersion


@dataclass(frozen=True, slots=True)
class Script:
    """The nodes of the workflow, of its next version, and of one that it starts; what happens.

    ``expires``: whether the plain wait has actions for the case that nobody clicks. Each of the
    strikes counts from the one before it, and may fall into what follows upon the happenings.
    """

    nodes: list
    edited: list
    child: list
    expires: bool
    happenings: list[Happening]
    strikes: list[Strike]


CONTACTS = 2

_links = st.integers(0, 7)
_clicks = st.builds(Click, _links, st.sampled_from(["now", "now", "at", "before"]))
_contacts = st.integers(0, CONTACTS - 1)
_fates = st.one_of(
    st.builds(Kill), st.builds(Kill), st.builds(Steal, st.integers(1, 4)), _clicks, _clicks
)
_strikes = st.builds(Strike, st.integers(0, 60), _fates)
_events = st.builds(Event, st.none() | _contacts, st.booleans())
_work = st.builds(Work, st.integers(1, 4), st.sampled_from(["due", "fairly", "announced"]))
_happenings = st.one_of(
    _events,
    *[_work] * 4,
    *[_clicks] * 2,
    *[st.builds(Pass, st.none() | st.integers(0, 7))] * 2,
    st.builds(Sweep),
    st.builds(Level, _contacts, st.none() | st.integers(1, 3)),
    st.one_of(st.builds(NewVersion), st.builds(Forget, _contacts)),
)


@st.composite
def scripts(draw):
    """Draw a script that begins with an event."""
    return Script(
        nodes=draw(TREES),
        edited=draw(TREES),
        child=draw(SMALL_TREES),
        expires=draw(st.booleans()),
        happenings=[draw(_events), *draw(st.lists(_happenings, min_size=6, max_size=16))],
        strikes=draw(st.lists(_strikes, min_size=2, max_size=8)),
    )
