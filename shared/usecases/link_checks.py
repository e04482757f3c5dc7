"""The links that actions wait for, where they are named as they are written."""

from collections.abc import Iterable, Iterator
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.domain.delays import delay_of
from shared.domain.templates import tokens_in
from shared.domain.tracking import token_in
from shared.errors import Fault
from shared.queries.tracking import find_link


def unknown_links(
    conn: Connection,
    tenant_id: UUID,
    actions: Iterable[tuple[str, dict[str, Any]]],
    *,
    on_events: bool = True,
) -> Iterator[Fault]:
    """Give the actions, each with its pointer, that wait for a link which the tenant does not have.

    The actions are valid but for that. Nothing could ever come of one: the link is named by no
    template, and a token is never made again. Templates are those of rules and workflows, or, not
    ``on_events``, of triggers.
    """
    for pointer, action in actions:
        delay = delay_of(action)
        if delay is None or delay.tracking_link is None:
            continue
        if any(True for _ in tokens_in(delay.tracking_link, on_events=on_events)):
            continue
        link = find_link(conn, token_in(delay.tracking_link))
        if link is None or link.tenant_id != tenant_id:
            yield Fault(
                code="tracking_link_unknown",
                pointer=f"{pointer}/delay/trackingLink",
                message="delay trackingLink names no tracking link of this tenant",
            )
