"""What is said when somebody asks why a trigger fires, or does not."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from shared.domain.runs import RunKind
from shared.domain.strict_json import Json
from shared.queries.timeline import EventRun, Occurrence
from shared.queries.whys import ActiveRun
from shared.schedule.local_times import LocalWindow

VERDICTS = (
    "due_now",
    "scheduled_for_future",
    "already_fired",
    "when_filter_mismatch",
    "missing_schedule_value",
    "invalid_schedule_value",
    "record_unreadable",
    "record_deleted",
    "held_back",
    "consumed_by_save",
    "active_run",
    "matches",
    "config_invalid",
    "trigger_removed",
)
"""What may be said: the classes of the preview, and what keeps a trigger from being asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """The date cell as it is stored, and what it is read as; None where it cannot be read."""

    column: str
    value: str | None
    identity: str | None
    instant: datetime | None
    fire_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """The first predicate of ``when`` that does not match, by its index, and the cell it saw."""

    index: int
    predicate: Json
    cell: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Why:
    """The verdict on a trigger, and all that led to it; what does not apply is None or empty.

    ``verdict`` is one of ``VERDICTS``, ``fires``: the scheduler would fire it now. ``ledger`` is
    the entry of the value, or window, that is asked about; ``history`` has the record's newest.
    ``look_at`` is the record's entry in the due index. ``window`` is the latest one of a clock.
    """

    table_id: UUID
    trigger_id: str
    kind: RunKind | None
    evaluated_at: datetime
    record_id: int | None = None
    verdict: str
    fires: bool = False
    error_codes: list[str] = field(default_factory=list)
    warnings: list[Json] = field(default_factory=list)
    cell: Cell | None = None
    clause: Clause | None = None
    ledger: Occurrence | None = None
    history: list[Occurrence] = field(default_factory=list)
    look_at: datetime | None = None
    last_run: EventRun | None = None
    anchor_at: datetime | None = None
    last_consumed_window_at: datetime | None = None
    window: LocalWindow | None = None
    due_at: datetime | None = None
    active_run: ActiveRun | None = None
    next: LocalWindow | None = None
