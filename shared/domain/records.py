"""Tables and their records, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from shared.domain.columns import Column

Approval = Literal["none", "required"]
"""Whether what actions want to write waits for a moderator; what people write never does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CustomTable:
    """A table of a tenant; ``triggers`` are in stored form, None when none were ever set.

    ``scp_ruled``: it has channel SCP rules, and so no triggers.
    """

    id: UUID
    tenant_id: UUID
    channel_id: UUID | None
    name: str
    columns: tuple[Column, ...]
    columns_made: int
    approval: Approval
    scp_ruled: bool
    triggers: list[dict[str, Any]] | None
    revision: int
    created_at: datetime
    updated_at: datetime
    trashed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A row of a table; ``data`` has cells by column id, ``version`` grows with every write."""

    id: int
    table_id: UUID
    data: dict[str, Any]
    version: int
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None
