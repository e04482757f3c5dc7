"""Values with defaults, for tests without a database: a test shows only what it is about."""

from datetime import UTC, datetime
from typing import NamedTuple
from uuid import UUID

from shared.domain.columns import Column
from shared.domain.line_users import LineUser
from shared.domain.records import CustomTable
from shared.domain.runs import ClaimedRun
from shared.domain.triggers import TriggerState, read_trigger

NOW = datetime(2026, 7, 25, 9, 0, tzinfo=UTC)
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)

TENANT_ID = UUID(int=0xA)
TABLE_ID = UUID(int=0xB)
TRIGGER_ID = "trg_00000000000c"


def a_column(*, id="c1", name="column", type="text", options=()):
    """Return a column; options are those of a select column alone."""
    return Column(id=id, name=name, type=type, options=options if type == "select" else ())


COLUMNS = (
    a_column(id="c1", name="due", type="datetime"),
    a_column(id="c2", name="day", type="date"),
    a_column(id="c3", name="status"),
    a_column(id="c4", name="amount", type="number"),
)


def a_table(**parts):
    """Return a live table without triggers."""
    table = {
        "id": TABLE_ID,
        "tenant_id": TENANT_ID,
        "channel_id": None,
        "name": "orders",
        "columns": COLUMNS,
        "columns_made": len(COLUMNS),
        "approval": "none",
        "scp_ruled": False,
        "triggers": None,
        "revision": 1,
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "trashed_at": None,
    }
    return CustomTable(**table | parts)


def a_line_user(**parts):
    """Return a contact without attributes."""
    line_user = {
        "id": 1,
        "tenant_id": TENANT_ID,
        "external_id": "U1",
        "display_name": "Ann",
        "attributes": {},
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
        "deleted_at": None,
    }
    return LineUser(**line_user | parts)


AN_ACTION = {"type": "webhook", "url": "https://example.com/hook"}

SCHEDULES = {
    "date_column_reached": {"type": "date_column_reached", "column": "due"},
    "interval": {"type": "interval", "every_seconds": 3600},
    "daily": {"type": "daily", "at": "09:00"},
    "cron": {"type": "cron", "expression": "0 9 * * *"},
}


def a_trigger(*, on="schedule", schedule=SCHEDULES["interval"], **parts):
    """Return a trigger as an author writes it, without id; only one on schedule has a schedule."""
    scheduled = {"schedule": schedule} if on == "schedule" else {}
    return {"on": on, **scheduled, "actions": [AN_ACTION], **parts}


def a_stored_trigger(**parts):
    """Return a trigger as a table stores it."""
    return a_trigger(**{"id": TRIGGER_ID, "name": "", "enabled": True, "when": []} | parts)


def a_read_trigger(*, columns=COLUMNS, **parts):
    """Return a valid stored trigger as a value."""
    read = read_trigger(a_stored_trigger(**parts), columns, stored=True)
    assert read.faults == ()
    return read.trigger


def a_state(*, kind="interval", **parts):
    """Return the state of a schedule trigger of that kind, anchored long ago."""
    state = {
        "ref": 1,
        "tenant_id": TENANT_ID,
        "table_id": TABLE_ID,
        "trigger_id": TRIGGER_ID,
        "kind": kind,
        "schedule": SCHEDULES[kind],
        "anchor_at": LONG_AGO,
        "last_window_at": None,
        "next_due_at": None,
        "cursor": None,
        "caught_up": False,
        "retired_at": None,
    }
    return TriggerState(**state | parts)


def a_claimed_run(**parts):
    """Return a run of an event as a worker has it after its claim."""
    run = {
        "id": 1,
        "tenant_id": TENANT_ID,
        "table_id": TABLE_ID,
        "table_lives": True,
        "trigger_id": TRIGGER_ID,
        "kind": "record_created",
        "record_id": 1,
        "identity": "record_created:1",
        "window_key": None,
        "scheduled_for": NOW,
        "definition_hash": bytes(32),
        "snapshot": {},
        "action_results": [],
        "open_action": None,
        "attempts": 1,
        "starts": 1,
        "worker_losses": 0,
        "depth": 0,
        "lease_token": UUID(int=0xC),
        "created_at": NOW,
    }
    return ClaimedRun(**run | parts)


class Candidate(NamedTuple):
    """A live record before a date trigger."""

    record_id: int
    version: int
    cell: str | None
    data: dict
    look_at: datetime | None


def a_candidate(cell=None, *, record_id=1, version=1, data=None, look_at=None):
    """Return a record with that cell, which has no entry in the due index."""
    return Candidate(record_id, version, cell, data or {}, look_at)
