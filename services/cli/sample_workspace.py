"""The sample workspace of ``duebook dev``: every kind of trigger fires within the first minute.

So does a rule, which starts a workflow that waits for a click. Nothing in it calls anybody outside.
"""

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.db.tenant_session import TenantSession
from shared.domain.columns import read_cells
from shared.domain.records import CustomTable, Record
from shared.domain.tenants import Tenant
from shared.effects.record_writes import create_records
from shared.errors import Conflict, Unauthenticated
from shared.queries.tenants import list_tenants
from shared.sealing import Sealer
from shared.tracking.click_store import PostgresClicks
from shared.usecases.manage_line_users import register_line_user
from shared.usecases.manage_rules import RuleDraft, make_rule
from shared.usecases.manage_tables import create_table
from shared.usecases.manage_workflows import make_workflow
from shared.usecases.set_triggers import set_triggers
from shared.usecases.take_event import NewEvent, take_event
from shared.usecases.tenant_limits import WaitingLimit
from shared.usecases.tokens import SECRET_BYTES, authenticate, create_tenant, issue_token

TENANT = "Sample workspace"
CHATROOM = UUID("11111111-1111-4111-8111-111111111111")

_JOURNAL_COLUMNS = [
    {"name": "entry", "type": "text"},
    {"name": "written by", "type": "text"},
    {"name": "at", "type": "datetime"},
]
_MACHINE_COLUMNS = [
    {"name": "machine", "type": "text"},
    {"name": "in service", "type": "checkbox"},
    {"name": "last seen", "type": "datetime"},
]
_CASE_COLUMNS: list[dict[str, Any]] = [
    {"name": "案件名稱", "type": "text"},
    {"name": "到期時間", "type": "datetime"},
    {"name": "狀態", "type": "select", "options": ["待處理", "處理中", "完成"]},
]
# Name, hours from now until it is due, state. Those due within a day and not done fire at once.
_CASES = [
    ("更換電梯鋼索", 20, "處理中"),
    ("冷卻水塔清洗", 23, "待處理"),
    ("消防設備檢查", 12, "完成"),
    ("年度保險續約", 24 * 30, "待處理"),
]
# Its reminder is ahead by less than a minute: somebody who looks on sees it come.
_NEXT_CASE = ("停車場照明", "待處理")


def ensure_sample_workspace(
    conn: TenantSession, *, sealer: Sealer, now: datetime
) -> tuple[Tenant, bool]:
    """Return the sample's tenant, and whether it was made now, with its tables and triggers."""
    with conn.transaction():
        try:
            tenant = create_tenant(
                conn,
                name=TENANT,
                key_secret=secrets.token_bytes(SECRET_BYTES),
                sealer=sealer,
                now=now,
            )
        except Conflict:
            return next(one for one in _tenants(conn) if one.name == TENANT), False
        journal = _table(conn, tenant, "journal", _JOURNAL_COLUMNS, now)
        _make_machines(conn, tenant, journal, now)
        _make_cases(conn, tenant, journal, now)
        _make_shop(conn, tenant, now)
    return tenant, True


def ensure_token(conn: Connection, tenant: Tenant, *, known: str, now: datetime) -> str:
    """Return the text of a moderator's token: ``known`` if it is theirs, else a new one."""
    try:
        if authenticate(conn, text=known).tenant_id == tenant.id:
            return known
    except Unauthenticated:
        pass
    _, text = issue_token(
        conn,
        tenant_id=tenant.id,
        name="duebook dev",
        role="moderator",
        channel_id=None,
        secret=secrets.token_bytes(SECRET_BYTES),
        now=now,
    )
    return text


def _tenants(conn: Connection) -> Iterator[Tenant]:
    after = None
    while page := list_tenants(conn, after=after, limit=1000):
        yield from page
        after = page[-1].created_at, page[-1].id


def _make_machines(conn: Connection, tenant: Tenant, journal: CustomTable, now: datetime) -> None:
    """The three kinds of clock."""
    table = _table(conn, tenant, "machines", _MACHINE_COLUMNS, now)
    press, _ = _records(
        conn,
        table,
        [{"machine": "press 1", "in service": True}, {"machine": "lathe 4", "in service": False}],
        now,
    )
    count = {
        "type": "create_record",
        "table_id": str(journal.id),
        "data": {"entry": "machines counted", "written by": "$trigger.name", "at": "$now"},
    }
    seen = {"type": "update_record", "target": press.id, "data": {"last seen": "$now"}}
    triggers = [
        _scheduled("every 60 seconds", {"type": "interval", "every_seconds": 60}, count),
        _scheduled(
            "once a day, for today at once",
            {"type": "daily", "at": "00:00"},
            _notify("a new day: look after the machines"),
        ),
        _scheduled("every minute", {"type": "cron", "expression": "* * * * *"}, seen),
    ]
    set_triggers(conn, table.id, triggers, now=now)


def _make_cases(conn: Connection, tenant: Tenant, journal: CustomTable, now: datetime) -> None:
    """A reminder a day ahead, and two events."""
    table = _table(conn, tenant, "案件", _CASE_COLUMNS, now)
    reminder = _scheduled(
        "到期提醒",
        {"type": "date_column_reached", "column": "到期時間", "offset_minutes": -1440},
        _notify("案件「$row.案件名稱」明天到期"),
    )
    reminder["when"] = [{"column": "狀態", "op": "neq", "value": "完成"}]
    created = {
        "name": "新案件",
        "on": "record_created",
        "actions": [_notify("新案件「$row.案件名稱」")],
    }
    changed = {
        "name": "狀態變更",
        "on": "record_updated",
        "when": [{"column": "狀態", "op": "changed"}],
        "actions": [
            {
                "type": "create_record",
                "table_id": str(journal.id),
                "data": {
                    "entry": "「${row.案件名稱}」→ ${row.狀態}",
                    "written by": "$trigger.name",
                    "at": "$now",
                },
            }
        ],
    }
    table = set_triggers(conn, table.id, [reminder, created, changed], now=now)
    cases = [(name, timedelta(hours=hours), state) for name, hours, state in _CASES]
    cases.append((_NEXT_CASE[0], timedelta(days=1, minutes=1), _NEXT_CASE[1]))
    rows = [
        {"案件名稱": name, "到期時間": f"{now + ahead:%Y-%m-%d %H:%M}", "狀態": state}
        for name, ahead, state in cases
    ]
    _records(conn, table, rows, now)


def _make_shop(conn: Connection, tenant: Tenant, now: datetime) -> None:
    """The story of a purchase, its three days and its day shortened to half a minute and two."""
    follow_up = [
        _step("$line_user.display_name, an offer after order $event.order: $link.offer"),
        {
            "type": "wait_for_tracking",
            "seconds": 120,
            "link": "offer",
            "target_url": "https://example.com/offer",
            "clicked": [_step("$line_user.display_name looked at the offer")],
            "not_clicked": [_step("$line_user.display_name, the offer ends today: $link.offer")],
        },
    ]
    make_workflow(conn, tenant_id=tenant.id, name="follow-up", nodes=follow_up, now=now)
    # Judged again when the delay is over: whoever has bought more by then is left alone.
    delay = {"seconds": 30, "reEvaluateConditions": True}
    rule = RuleDraft(
        name="after a first purchase",
        event="purchase",
        conditions=[{"column": "line_user.purchases", "op": "eq", "value": 1}],
        actions=[{"type": "start_workflow", "workflow": "follow-up", "delay": delay}],
        enabled=True,
    )
    make_rule(conn, tenant_id=tenant.id, draft=rule, now=now)
    contact = register_line_user(
        conn,
        tenant_id=tenant.id,
        external_id="crm-1027",
        display_name="Lin",
        attributes={"purchases": 1},
        now=now,
    )
    purchase = NewEvent(
        tenant_id=tenant.id,
        name="purchase",
        line_user_id=contact.id,
        data={"order": 1027},
        key="order-1027",
    )
    take_event(conn, purchase, clicks=PostgresClicks(), waiting=WaitingLimit(), now=now)


def _step(message: str) -> dict[str, Any]:
    return {"type": "action", "action": _notify(message)}


def _table(
    conn: Connection, tenant: Tenant, name: str, columns: list[dict[str, Any]], now: datetime
) -> CustomTable:
    return create_table(
        conn, tenant_id=tenant.id, channel_id=None, name=name, raw_columns=columns, now=now
    )


def _records(
    conn: Connection, table: CustomTable, rows: list[dict[str, Any]], now: datetime
) -> list[Record]:
    cells = [read_cells(row, table.columns) for row in rows]
    return create_records(conn, table, cells, now=now)


def _scheduled(name: str, schedule: dict[str, Any], action: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "on": "schedule", "schedule": schedule, "actions": [action]}


def _notify(message: str) -> dict[str, Any]:
    return {"type": "notify", "chatroom_id": str(CHATROOM), "message": message}
