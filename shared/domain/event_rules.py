"""Rules on events: what a tenant's event leads to, and for whom (spec 3 §1)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

MAX_EVENT_NAME = 200
MAX_RULE_NAME = 200
MAX_RULE_ACTIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerRule:
    """A rule; ``conditions`` and ``actions`` are as authored, ``event`` is the name it answers."""

    id: int
    tenant_id: UUID
    name: str
    event: str
    conditions: list[dict[str, Any]]
    actions: list[dict[str, Any]]
    enabled: bool
    revision: int
    created_at: datetime
    updated_at: datetime
