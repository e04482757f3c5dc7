"""Tracking links made by hand: an address of ours that leads on, for a message of the tenant's."""

from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.actions.urls import parse_url
from shared.domain.tracking import TrackingLink, link_token
from shared.errors import Fault, InvalidInput, NotFound
from shared.queries import tracking
from shared.queries.tenants import get_tenant


def make_link(
    conn: Connection,
    *,
    tenant_id: UUID,
    secret: bytes,
    target_url: str,
    line_user_id: int | None,
    name: str | None,
    now: datetime,
) -> TrackingLink:
    """Make a link and return it; ``secret`` are its token's random bytes.

    Raises InvalidInput for a target that is no http or https URL (``url_invalid``) or a contact
    that is not there (``line_user_unknown``), NotFound ``tenant_not_found``.
    """
    try:
        parse_url(target_url)
    except ValueError as error:
        raise _invalid("url_invalid", "/target_url", str(error)) from error
    get_tenant(conn, tenant_id)
    link = tracking.insert_link(
        conn,
        tenant_id=tenant_id,
        token=link_token(secret),
        target_url=target_url,
        line_user_id=line_user_id,
        name=name,
        now=now,
    )
    if link is None:
        message = f"line_user_id names no contact of this tenant: {line_user_id}"
        raise _invalid("line_user_unknown", "/line_user_id", message)
    return link


def get_link(conn: Connection, *, tenant_id: UUID, link_id: int) -> TrackingLink:
    """Return a tenant's link. Raises NotFound ``tracking_link_not_found``."""
    link = tracking.find_link_by_id(conn, tenant_id=tenant_id, link_id=link_id)
    if link is None:
        raise NotFound(f"tracking link {link_id} does not exist", code="tracking_link_not_found")
    return link


def _invalid(code: str, pointer: str, message: str) -> InvalidInput:
    return InvalidInput.of([Fault(code=code, pointer=pointer, message=message)])
