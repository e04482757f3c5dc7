"""Rows of delayed actions with defaults, beside those of ``builders_db``.

Every builder takes further columns of its table as keywords.
"""

import itertools
from datetime import timedelta

from psycopg.types.json import Jsonb

from shared.domain.scheduled_actions import NewAction
from tests.builders_db import BY_STATUS, LONG_AGO, insert_row, insert_tenant

NOTIFY = {"type": "notify", "chatroom_id": "c0000000-0000-4000-8000-000000000001", "message": "m"}

_serial = itertools.count(1)


def insert_line_user(conn, tenant_id=None, **columns) -> int:
    """Insert a contact, of a tenant of its own unless one is given, and return its id."""
    values = {
        "tenant_id": tenant_id or insert_tenant(conn),
        "external_id": f"U{next(_serial)}",
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return insert_row(conn, "line_user", **values | columns)


def insert_link(conn, tenant_id, **columns) -> int:
    """Insert a tracking link and return its id."""
    values = {
        "tenant_id": tenant_id,
        "token": f"{next(_serial):032}",
        "target_url": "https://example.com/offer",
        "created_at": LONG_AGO,
    }
    return insert_row(conn, "tracking_link", **values | columns)


def insert_click(conn, link_id, *, clicked_at=LONG_AGO, unlocked_at=None) -> None:
    """Insert the durable click of a link."""
    conn.execute(
        "INSERT INTO tracking_click (link_id, first_clicked_at, unlocked_at) VALUES (%s, %s, %s)",
        [link_id, clicked_at, unlocked_at],
    )


def insert_workflow(conn, tenant_id=None, *, nodes=(), **columns) -> int:
    """Insert a workflow with its first version and return its id."""
    tenant_id = tenant_id or insert_tenant(conn)
    values = {
        "tenant_id": tenant_id,
        "name": f"workflow {next(_serial)}",
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    workflow_id = insert_row(conn, "workflow", **values | columns)
    conn.execute(
        "INSERT INTO workflow_version (workflow_id, version, tenant_id, nodes, created_at)"
        " VALUES (%s, 1, %s, %s, %s)",
        [workflow_id, tenant_id, Jsonb(list(nodes)), LONG_AGO],
    )
    return workflow_id


def insert_execution(conn, tenant_id, workflow_id=None, **columns):
    """Insert an execution of a workflow and return what a step of it has in its columns."""
    values = {
        "tenant_id": tenant_id,
        "workflow_id": workflow_id or insert_workflow(conn, tenant_id),
        "workflow_version": 1,
        "origin_key": f"execution {next(_serial)}",
        "started_at": LONG_AGO,
    } | columns
    execution_id = insert_row(conn, "workflow_execution", **values)
    return {
        "execution_id": execution_id,
        "workflow_id": values["workflow_id"],
        "workflow_version": 1,
        "workflow_node_path": "0",
    }


def insert_action(conn, tenant_id=None, *, status="pending", **more) -> int:
    """Insert a scheduled action, due since long when it is pending, and return its id."""
    values = {
        "tenant_id": tenant_id or insert_tenant(conn),
        "origin_key": f"origin {next(_serial)}",
        "execute_at": LONG_AGO,
        "action_type": "notify",
        "action_config": Jsonb(NOTIFY),
        "status": status,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return insert_row(conn, "scheduled_action", **values | BY_STATUS[status] | more)


def insert_wait(conn, tenant_id=None, *, expires_at=LONG_AGO, clicked_at=None, **more) -> int:
    """Insert a wait for a link of its own and return its id; ``clicked_at`` stores a click."""
    tenant_id = tenant_id or insert_tenant(conn)
    link_id = insert_link(conn, tenant_id)
    if clicked_at is not None:
        insert_click(conn, link_id, clicked_at=clicked_at)
    values = {
        "mode": "waitForTracking",
        "execute_at": expires_at,
        "expires_at": expires_at,
        "tracking_link_id": link_id,
    }
    if more.get("status", "pending") == "pending":
        values |= {"announce_at": expires_at, "next_attempt_at": expires_at}
    return insert_action(conn, tenant_id, **values | more)


def a_new_action(tenant_id, **parts) -> NewAction:
    """Return an action to be recorded."""
    values = {
        "tenant_id": tenant_id,
        "origin_key": f"origin {next(_serial)}",
        "execute_at": LONG_AGO + timedelta(hours=1),
        "action_type": "notify",
        "action_config": NOTIFY,
    }
    return NewAction(**values | parts)
