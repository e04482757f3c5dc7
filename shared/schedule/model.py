"""The four kinds of schedule, as frozen values that compare and hash by what was authored."""

from dataclasses import dataclass, field
from datetime import time, tzinfo
from typing import ClassVar, Literal

from shared.schedule.cron import CronRule

ScheduleKind = Literal["date_column_reached", "interval", "daily", "cron"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DateColumnReached:
    """Due per record, ``offset_minutes`` after (negative: before) the instant in ``column``."""

    kind: ClassVar[Literal["date_column_reached"]] = "date_column_reached"

    column: str
    offset_minutes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Windows at the anchor and every ``every_seconds`` after it."""

    kind: ClassVar[Literal["interval"]] = "interval"

    every_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Daily:
    """One window per local day, at the wall time ``at`` of ``zone``."""

    kind: ClassVar[Literal["daily"]] = "daily"

    at: time
    zone: tzinfo


@dataclass(frozen=True, slots=True, kw_only=True)
class Cron:
    """Windows at the local minutes of ``zone`` that match ``expression``, compiled to ``rule``."""

    kind: ClassVar[Literal["cron"]] = "cron"

    expression: str
    zone: tzinfo
    rule: CronRule = field(compare=False, repr=False)


TableSchedule = Interval | Daily | Cron
Schedule = DateColumnReached | TableSchedule
