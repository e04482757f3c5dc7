"""Executions of actions on a fresh tenant with one table."""

from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from services.worker.definitions import Definition
from services.worker.run_trigger import RunScript
from shared.actions.action import Services
from shared.actions.registry import ACTIONS
from shared.domain.columns import Column
from shared.domain.runs import ClaimedRun
from shared.queries.custom_tables import insert_table
from shared.queries.tenants import insert_signing_key, insert_tenant
from shared.sealing import Sealer
from shared.tracking.click_store import PostgresClicks

NOW = datetime(2026, 11, 30, 12, 0, 5, tzinfo=UTC)
SCHEDULED_FOR = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
KEY = "k" * 64
SECRET = b"s" * 32
COLUMNS = (
    Column(id="c1", name="案件名稱", type="text"),
    Column(id="c2", name="amount", type="number"),
    Column(id="c3", name="到期時間", type="datetime"),
)
SNAPSHOT = {"c1": "合約 A&B", "c2": 1.5, "c3": "2026-11-30 20:00"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """A tenant with a signing key and a table; ``conn`` is the session that executions get."""

    conn: Any
    tenant: Any
    table: Any
    services: Services

    def context(self, *, services=None, key=KEY, now=NOW, **of_run):
        """The context of a date run on a row; ``of_run`` changes the run."""
        run = {
            "id": 41,
            "tenant_id": self.tenant.id,
            "table_id": self.table.id,
            "table_lives": True,
            "trigger_id": "trg_0123456789ab",
            "kind": "date_column_reached",
            "record_id": 7,
            "identity": "2026-11-30 20:00",
            "window_key": None,
            "scheduled_for": SCHEDULED_FOR,
            "definition_hash": b"h" * 32,
            "snapshot": SNAPSHOT,
            "action_results": [],
            "open_action": None,
            "attempts": 1,
            "starts": 3,
            "worker_losses": 0,
            "depth": 0,
            "lease_token": uuid4(),
            "created_at": SCHEDULED_FOR,
        }
        trigger = {"id": "trg_0123456789ab", "name": "remind", "on": "schedule"}
        script = RunScript(
            work=ClaimedRun(**run | of_run), definition=Definition(trigger=trigger, columns=COLUMNS)
        )
        context = script.context(
            0,
            now=now,
            services=services or self.services,
            connect=lambda: nullcontext(self.conn),
        )
        return replace(context, idempotency_key=key)

    def recordless(self, **of_run):
        """The context of a daily run."""
        daily = {
            "kind": "daily",
            "record_id": None,
            "snapshot": None,
            "identity": "2026-11-30T12:00:00Z",
            "window_key": "20261130",
        }
        return self.context(**daily | of_run)


def execute(config, context):
    """Execute the action of ``config``."""
    return ACTIONS[config["type"]].execute(config, context)


def a_workspace(conn, http, *, name="tenant", gateway_url=None):
    """Make the tenant, its key and its table."""
    tenant = insert_tenant(conn, name=name, now=NOW)
    insert_signing_key(conn, tenant_id=tenant.id, secret=Sealer().seal(SECRET), now=NOW)
    table = insert_table(
        conn,
        tenant_id=tenant.id,
        channel_id=None,
        name="cases",
        columns=COLUMNS,
        columns_made=len(COLUMNS),
        now=NOW,
    )
    services = Services(
        http=http,
        gateway_url=gateway_url,
        deadline_seconds=20,
        clicks=PostgresClicks(),
        public_url="https://links.example",
    )
    return Workspace(conn=conn, tenant=tenant, table=table, services=services)
