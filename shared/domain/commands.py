"""Commands that a tenant registered for invoke_command, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command: where it is called, and the JSON schema of its inputs."""

    id: int
    tenant_id: UUID
    name: str
    url: str
    input_schema: dict[str, Any]
    revision: int
    created_at: datetime
    updated_at: datetime
