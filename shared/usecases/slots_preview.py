"""What the actions that make slots would do now, told without doing it."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from psycopg import Connection

from shared.actions.failures import ActionFailed
from shared.actions.materialize_slots import MaterializeSlots, Sowing, added
from shared.domain.delays import actions_within
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.effects.slot_writes import foresee
from shared.usecases.lookups import TenantLookup

_NOTHING = {"created": None, "kept": None, "pruned": None, "invalid": None}


def preview_slots(conn: Connection, table: CustomTable, *, now: datetime) -> list[dict[str, Json]]:
    """Return, for each such action of a table's triggers, its counts or why it would fail.

    In order. Counts only, no record and no cell.
    """
    return [
        {
            "trigger_id": trigger.get("id"),
            "pointer": pointer,
            "error": None,
            **_told(conn, table, trigger, action, now),
        }
        for trigger in table.triggers or []
        for pointer, action in _slot_actions(trigger)
    ]


def _slot_actions(trigger: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for position, outer in enumerate(trigger.get("actions") or []):
        for pointer, action in actions_within(outer):
            if isinstance(action, dict) and action.get("type") == MaterializeSlots.type:
                yield f"/actions/{position}{pointer}", action


def _told(
    conn: Connection,
    table: CustomTable,
    trigger: Mapping[str, Any],
    action: dict[str, Any],
    now: datetime,
) -> dict[str, Json]:
    lookup = TenantLookup(conn=conn, tenant_id=table.tenant_id)
    zone = str((trigger.get("schedule") or {}).get("timezone", "UTC"))
    try:
        sowing = Sowing.of(conn, action, lookup.find_table, zone)
        horizon = sowing.horizon(now)
    except ActionFailed as error:
        return {**_NOTHING, "error": error.detail}
    counts: dict[str, Json] = {}
    filling = sowing.filling(now=now, depth=0)
    while horizon.after < horizon.until:
        stretch = sowing.stretch(horizon)
        counts = added(counts, foresee(conn, filling, stretch))
        horizon = horizon.from_wall(stretch.until)
    return {**dict.fromkeys(_NOTHING, 0), **counts, "invalid": len(sowing.roster.invalid)}
