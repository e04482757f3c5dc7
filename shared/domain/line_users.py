"""Contacts of a tenant, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

MAX_EXTERNAL_ID = 200
MAX_DISPLAY_NAME = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LineUser:
    """A contact; ``external_id`` is what the tenant's own systems call it."""

    id: int
    tenant_id: UUID
    external_id: str
    display_name: str | None
    attributes: dict[str, Any]
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
