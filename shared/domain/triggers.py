"""Triggers and their durable state, as values; the one reader of authored and stored triggers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

On = Literal["schedule", "record_created", "record_updated", "record_deleted"]
ScheduleKind = Literal["date_column_reached", "interval", "daily", "cron"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerState:
    """The durable state of a schedule trigger; ``cursor`` is the last row its walk looked at.

    ``schedule`` is the normal form the anchor belongs to. ``retired_at`` is None while the trigger
    stands in its table.
    """

    ref: int
    tenant_id: UUID
    table_id: UUID
    trigger_id: str
    kind: ScheduleKind
    schedule: Mapping[str, Any]
    anchor_at: datetime
    last_window_at: datetime | None
    next_due_at: datetime | None
    cursor: tuple[datetime, int] | None
    caught_up: bool
    retired_at: datetime | None
