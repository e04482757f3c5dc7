"""Tracking links and their durable clicks, and the waits that a click unlocks."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from shared.domain.tracking import TrackingLink
from shared.domain.work import Reference

_COLUMNS = """
SELECT link.id, link.tenant_id, link.token, link.target_url, link.line_user_id, link.execution_id,
    link.workflow_node_path, link.name, link.created_at, coalesce(click.clicks, 0) AS clicks,
    click.first_clicked_at
FROM tracking_link AS link
LEFT JOIN tracking_click AS click ON click.link_id = link.id
"""

_INSERT_LINK = """
INSERT INTO tracking_link (tenant_id, token, target_url, line_user_id, execution_id,
    workflow_node_path, name, created_at)
SELECT %(tenant_id)s::uuid, %(token)s, %(target_url)s, %(line_user_id)s::bigint,
    %(execution_id)s::uuid, %(workflow_node_path)s, %(name)s, %(now)s
WHERE %(line_user_id)s::bigint IS NULL OR EXISTS (
    SELECT FROM line_user
    WHERE tenant_id = %(tenant_id)s AND id = %(line_user_id)s AND deleted_at IS NULL
)
RETURNING id, tenant_id, token, target_url, line_user_id, execution_id, workflow_node_path, name,
    created_at, 0 AS clicks, NULL::timestamptz AS first_clicked_at
"""


def insert_link(
    conn: Connection,
    *,
    tenant_id: UUID,
    token: str,
    target_url: str,
    line_user_id: int | None = None,
    execution_id: UUID | None = None,
    workflow_node_path: str | None = None,
    name: str | None = None,
    now: datetime,
) -> TrackingLink | None:
    """Insert a link and return it; None when the tenant has no such contact.

    ``execution_id`` and ``workflow_node_path`` come together: the wait that the link belongs to.
    """
    parameters = {
        "tenant_id": tenant_id,
        "token": token,
        "target_url": target_url,
        "line_user_id": line_user_id,
        "execution_id": execution_id,
        "workflow_node_path": workflow_node_path,
        "name": name,
        "now": now,
    }
    return _one(conn, _INSERT_LINK, parameters)


_FIND_LINK = _COLUMNS + "WHERE link.token = %(token)s"


def find_link(conn: Connection, token: str) -> TrackingLink | None:
    """Return the link of a token, whoever's it is; None when there is none."""
    return _one(conn, _FIND_LINK, {"token": token})


_GET_LINK = _COLUMNS + "WHERE link.tenant_id = %(tenant_id)s AND link.id = %(link_id)s"


def find_link_by_id(conn: Connection, *, tenant_id: UUID, link_id: int) -> TrackingLink | None:
    """Return a tenant's link; None when it has none of this id."""
    return _one(conn, _GET_LINK, {"tenant_id": tenant_id, "link_id": link_id})


# FOR KEY SHARE stands against the FOR UPDATE of LOCK_UNTRIED alone. Whoever schedules a wait holds
# it until its commit: no click counts as dealt with while a row that it should unlock is on its
# way, so that not even the death of the scheduling process leaves that row to its deadline.
_WATCH_LINK = _FIND_LINK + " AND link.tenant_id = %(tenant_id)s FOR KEY SHARE OF link"


def find_link_to_watch(conn: Connection, *, tenant_id: UUID, token: str) -> TrackingLink | None:
    """Return a tenant's link by its token, for a wait that this transaction is about to record.

    Call it before any look for clicks, in the transaction that records the wait.
    """
    return _one(conn, _WATCH_LINK, {"tenant_id": tenant_id, "token": token})


_OF_WAIT = (
    _COLUMNS
    + """WHERE link.execution_id = %(execution_id)s AND link.workflow_node_path = %(path)s
FOR KEY SHARE OF link
"""
)


def find_link_of_wait(conn: Connection, *, execution_id: UUID, path: str) -> TrackingLink | None:
    """Return the link that belongs to a wait of an execution, by the path of its node.

    To be called as ``find_link_to_watch`` is: the transaction is about to record the wait.
    """
    return _one(conn, _OF_WAIT, {"execution_id": execution_id, "path": path})


# One tenant's, written so that only the index that leads with the tenant has the order: a plan for
# any tenant would else walk through all links backwards to find the few of one.
_LIST_LINKS = (
    _COLUMNS
    + """WHERE (link.tenant_id, link.id) < (%(tenant_id)s, %(before)s)
    AND link.tenant_id >= %(tenant_id)s
ORDER BY link.tenant_id DESC, link.id DESC
LIMIT %(limit)s
"""
)

_NEWEST = 2**63 - 1


def list_links(
    conn: Connection, *, tenant_id: UUID, before: int | None = None, limit: int
) -> list[TrackingLink]:
    """Return a page of a tenant's links, the newest first, those before ``before``."""
    parameters = {
        "tenant_id": tenant_id,
        "before": _NEWEST if before is None else before,
        "limit": limit,
    }
    with conn.cursor(row_factory=class_row(TrackingLink)) as cursor:
        return cursor.execute(_LIST_LINKS, parameters).fetchall()


def _one(
    conn: Connection, statement: LiteralString, parameters: Mapping[str, Any]
) -> TrackingLink | None:
    with conn.cursor(row_factory=class_row(TrackingLink)) as cursor:
        return cursor.execute(statement, parameters).fetchone()


# An earlier instant that is told later wins: it may have been in time for a wait for which the one
# known before was late, hence the unlock has to be tried anew.
_RECORD_CLICK = """
INSERT INTO tracking_click AS click (link_id, first_clicked_at)
VALUES (%(link_id)s, %(clicked_at)s)
ON CONFLICT (link_id) DO UPDATE SET
    clicks = least(click.clicks, 2147483646) + 1,
    first_clicked_at = least(click.first_clicked_at, EXCLUDED.first_clicked_at),
    unlocked_at = CASE
        WHEN EXCLUDED.first_clicked_at >= click.first_clicked_at THEN click.unlocked_at
    END
"""


def record_click(conn: Connection, link_id: int, *, clicked_at: datetime) -> None:
    """Write a click durably: the first one, or one more."""
    conn.execute(_RECORD_CLICK, {"link_id": link_id, "clicked_at": clicked_at})


# Of what is durable already nothing is written, and no lock is taken: the usual case. The click
# is counted by whoever took it in, hence not here; an earlier instant is tried anew, as above.
_KEEP_CLICK = """
INSERT INTO tracking_click AS click (link_id, first_clicked_at, clicks)
SELECT %(link_id)s, %(clicked_at)s::timestamptz, 0
WHERE NOT EXISTS (
    SELECT
    FROM tracking_click
    WHERE link_id = %(link_id)s AND first_clicked_at <= %(clicked_at)s
)
ON CONFLICT (link_id) DO UPDATE SET
    first_clicked_at = EXCLUDED.first_clicked_at,
    unlocked_at = NULL
WHERE click.first_clicked_at > EXCLUDED.first_clicked_at
"""


def keep_click(conn: Connection, link_id: int, *, clicked_at: datetime) -> None:
    """Make durable what another store tells of a click, without counting it."""
    conn.execute(_KEEP_CLICK, {"link_id": link_id, "clicked_at": clicked_at})


_FIND_CLICK = "SELECT first_clicked_at FROM tracking_click WHERE link_id = %(link_id)s"


def find_click(conn: Connection, link_id: int) -> datetime | None:
    """Return when a link was first clicked, None when it was not."""
    row = conn.execute(_FIND_CLICK, {"link_id": link_id}).fetchone()
    return None if row is None else row[0]


_LOCK_UNTRIED = """
SELECT link.id
FROM tracking_link AS link
JOIN tracking_click AS click ON click.link_id = link.id
WHERE link.id = %(link_id)s AND click.unlocked_at IS NULL
FOR UPDATE OF link SKIP LOCKED
"""


def lock_untried(conn: Connection, link_id: int) -> bool:
    """Lock the link of a click whose unlock has still to be tried; False: not so, or not now.

    While the transaction lasts nobody begins to record a wait for the link, and nobody has begun.
    """
    return conn.execute(_LOCK_UNTRIED, {"link_id": link_id}).fetchone() is not None


UNLOCKED_AT_ONCE = 1000
"""Waits that one call of ``unlock`` gives their branch: a whole campaign may wait for one link."""

# The one statement that lets a click win. It judges by the click's recorded instant; only the
# moment of becoming due is read from the clock.
_UNLOCK = """
WITH waiting AS MATERIALIZED (
    SELECT id
    FROM scheduled_action
    WHERE tracking_link_id = %(link_id)s
        AND status = 'pending'
        AND mode = 'waitForTracking'
        AND branch IS NULL
        AND expires_at > (
            SELECT first_clicked_at
            FROM tracking_click
            WHERE link_id = %(link_id)s
        )
    ORDER BY id
    LIMIT %(limit)s
    FOR UPDATE
)
UPDATE scheduled_action
SET branch = 'clicked', urgent = true, next_attempt_at = clock_timestamp(),
    announce_at = clock_timestamp(), updated_at = clock_timestamp()
WHERE id = ANY(ARRAY(SELECT id FROM waiting))
RETURNING id, lease_token AS token
"""


def unlock(conn: Connection, link_id: int) -> list[Reference]:
    """pending -> pending: the waits on a link that was clicked in time take the clicked branch.

    They are urgent and due at once; returned are those that this call unlocked. As many as
    ``UNLOCKED_AT_ONCE``: there may be more.
    """
    parameters = {"link_id": link_id, "limit": UNLOCKED_AT_ONCE}
    return [Reference(id=id, token=token) for id, token in conn.execute(_UNLOCK, parameters)]


_MARK_TRIED = """
UPDATE tracking_click
SET unlocked_at = clock_timestamp()
WHERE link_id = %(link_id)s AND unlocked_at IS NULL
"""


def mark_tried(conn: Connection, link_id: int) -> None:
    """Note that the unlock of a link's click was tried; needs the lock of ``lock_untried``."""
    conn.execute(_MARK_TRIED, {"link_id": link_id})


_LIST_UNTRIED = """
SELECT link_id
FROM tracking_click
WHERE unlocked_at IS NULL AND link_id > %(after)s
ORDER BY link_id
LIMIT %(limit)s
"""


def list_untried(conn: Connection, *, after: int = 0, limit: int) -> list[int]:
    """Return the links behind ``after`` whose click's unlock was not tried, by their ids."""
    return [id for (id,) in conn.execute(_LIST_UNTRIED, {"after": after, "limit": limit})]
