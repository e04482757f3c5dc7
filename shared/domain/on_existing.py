"""What a save does with values that are overdue already: fire them, consume them, let them drip."""

from dataclasses import dataclass
from typing import Literal, get_args

Mode = Literal["fire", "consume", "drip"]
MODES: tuple[Mode, ...] = get_args(Mode)

MAX_PER_MINUTE = 100_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OnExisting:
    """The choice of a save; ``per_minute`` belongs to ``drip`` and is None otherwise.

    It concerns the date triggers that the save makes, revives, or gives another column or offset.
    """

    mode: Mode = "fire"
    per_minute: int | None = None


FIRE = OnExisting()
