"""Tenants, the tokens that act in them, and the keys that sign their webhooks, as values."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, get_args
from uuid import UUID

Role = Literal["moderator", "editor", "viewer", "service"]
ROLES: tuple[Role, ...] = get_args(Role)

MAX_NAME = 200
"""How many characters the name of a tenant or a token may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant."""

    id: UUID
    name: str
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiToken:
    """What is known of a token; its text is known to its holder alone.

    ``channel_id`` None: good for the whole tenant.
    """

    id: UUID
    tenant_id: UUID
    name: str
    role: Role
    channel_id: UUID | None
    created_at: datetime
    revoked_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """What may be told of a signing key; ``expires_at`` None: good until it is replaced."""

    id: UUID
    tenant_id: UUID
    created_at: datetime
    expires_at: datetime | None
