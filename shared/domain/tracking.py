"""Tracking links as values: an address of ours that leads on to a target and tells of the click."""

import re
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

TOKEN_BYTES = 24
MAX_LINK_NAME = 200

_TOKEN = re.compile(r"[A-Za-z0-9_-]{32}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackingLink:
    """A link; ``execution_id`` and ``workflow_node_path`` name the wait that it belongs to, if any.

    ``first_clicked_at`` None: it was never clicked. ``clicks`` counts the repeated ones as well.
    """

    id: int
    tenant_id: UUID
    token: str
    target_url: str
    line_user_id: int | None
    execution_id: UUID | None
    workflow_node_path: str | None
    name: str | None
    created_at: datetime
    clicks: int
    first_clicked_at: datetime | None


def link_token(secret: bytes) -> str:
    """Return the token that is made of ``TOKEN_BYTES`` random bytes."""
    return urlsafe_b64encode(secret).decode()


def is_link_token(text: str) -> bool:
    """Tell whether a text can be the token of a link."""
    return _TOKEN.fullmatch(text) is not None


def token_in(text: str) -> str:
    """Return the token of what names a link: the token itself, or an address that ends in it.

    It may be of no link, or no token at all.
    """
    return text.partition("#")[0].partition("?")[0].rpartition("/")[2]


def link_url(public_url: str, token: str) -> str:
    """Return the address that people click; ``public_url`` is where the API is reached."""
    return f"{public_url}/t/{token}"
