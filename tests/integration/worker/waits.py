"""Contacts, links, clicks and workflows for scheduled actions."""

import secrets
from datetime import timedelta

from shared.db.clock import server_now
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.effects.workflow_steps import start_execution
from shared.queries.line_users import find_line_user
from shared.queries.tracking import insert_link
from shared.queries.workflows import insert_workflow
from shared.tracking.click_store import PostgresClicks
from shared.usecases.unlock_wait import find_clicked, take_click
from tests.builders_db import LONG_AGO, insert_tenant
from tests.builders_delayed import insert_line_user

TARGET = "https://shop.example/offer"


def a_link(conn, tenant_id):
    """Insert a link and return it."""
    return insert_link(
        conn,
        tenant_id=tenant_id,
        token=link_token(secrets.token_bytes(TOKEN_BYTES)),
        target_url=TARGET,
        now=LONG_AGO,
    )


def a_wait(conn, *, tenant_id=None, seconds=-60, **columns):
    """Return the columns of a wait for a link whose deadline is so many seconds ahead."""
    tenant_id = tenant_id or insert_tenant(conn)
    link = a_link(conn, tenant_id)
    deadline = server_now(conn) + timedelta(seconds=seconds)
    return {
        "tenant_id": tenant_id,
        "mode": "waitForTracking",
        "execute_at": deadline,
        "expires_at": deadline,
        "next_attempt_at": deadline,
        "announce_at": deadline,
        "tracking_link_id": link.id,
    } | columns


def click(conn, token, *, at=None):
    """Take a click in, as the API does; now, or as at that time."""
    link = find_clicked(conn, token)
    take_click(conn, link, clicked_at=at or server_now(conn), clicks=PostgresClicks())


class ClickedMeanwhile(PostgresClicks):
    """Somebody clicks as soon as the first look has found nothing."""

    def __init__(self, conn):
        self._conn = conn
        self._looks = 0

    def clicked_at(self, conn, link):
        found = super().clicked_at(conn, link)
        self._looks += 1
        if self._looks == 1:
            click(self._conn, link.token)
        return found


def token_of(conn, link_id):
    """Return the token of a link."""
    return conn.execute("SELECT token FROM tracking_link WHERE id = %s", [link_id]).fetchone()[0]


def start(conn, nodes, *, context=None, tenant_id=None, depth=0, with_contact=True, **of_contact):
    """Start an execution of a workflow with these nodes, and return (workflow, execution id)."""
    tenant_id = tenant_id or insert_tenant(conn)
    workflow = insert_workflow(
        conn, tenant_id=tenant_id, name=secrets.token_hex(8), nodes=nodes, now=LONG_AGO
    )
    line_user = None
    if with_contact:
        contact_id = insert_line_user(conn, tenant_id=tenant_id, **of_contact)
        line_user = find_line_user(conn, tenant_id, contact_id)
    started = start_execution(
        conn,
        workflow,
        line_user=line_user,
        context=context or {},
        origin_key=secrets.token_hex(8),
        depth=depth,
        clicks=PostgresClicks(),
        now=server_now(conn),
    )
    return workflow, started.execution_id


def act(config):
    return {"type": "action", "action": config}


def delay(seconds=3600):
    return {"type": "delay", "seconds": seconds}


def wait_for_click(*, clicked=(), not_clicked=(), link="offer", seconds=3600):
    return {
        "type": "wait_for_tracking",
        "seconds": seconds,
        "link": link,
        "target_url": TARGET,
        "clicked": list(clicked),
        "not_clicked": list(not_clicked),
    }
