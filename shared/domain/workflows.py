"""Workflows: trees of nodes, and which node comes next (spec 3 §6)."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

MAX_WORKFLOW_NAME = 200
MAX_LEVELS = 8
"""Lists of nodes inside each other."""
MAX_NODES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """A workflow in its newest version, or in the one that was asked for."""

    id: int
    tenant_id: UUID
    name: str
    version: int
    nodes: list[dict[str, Any]]
    created_at: datetime
    updated_at: datetime
