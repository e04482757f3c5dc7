"""What the actions that make slots would do now, told without doing it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import Connection

from shared.actions.action import Lookup
from shared.actions.failures import ActionFailed
from shared.actions.lookups import Remembered
from shared.actions.materialize_slots import MaterializeSlots, RosterTooLarge, Sowing, added
from shared.domain.delays import actions_within
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.effects.slot_writes import foresee
from shared.usecases.lookups import TenantLookup

MAX_LOOKED_AT = 50_000
"""Rows of rosters and slots that one preview looks at: about a second."""
OF_AN_ACTION = 100
"""What an action counts as beside its rows and slots: there may be thousands without any."""

_COUNTED = ("created", "kept", "pruned", "invalid")


def preview_slots(
    conn: Connection, table: CustomTable, *, now: datetime, most: int = MAX_LOOKED_AT
) -> list[dict[str, Json]]:
    """Return, for each such action of a table's triggers, its counts or why it would fail.

    In order. Counts only, no record and no cell. ``truncated``: they are those of the first days
    alone, or null, since more would have to be looked at than ``most``.
    """
    lookup = Remembered(TenantLookup(conn=conn, tenant_id=table.tenant_id))
    look = _Look(conn=conn, lookup=lookup, now=now, room=most)
    return [
        {"trigger_id": trigger.get("id"), "pointer": pointer, **look.at(trigger, action)}
        for trigger in table.triggers or []
        for pointer, action in _slot_actions(trigger)
    ]


def _slot_actions(trigger: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for position, outer in enumerate(trigger.get("actions") or []):
        for pointer, action in actions_within(outer):
            if isinstance(action, dict) and action.get("type") == MaterializeSlots.type:
                yield f"/actions/{position}{pointer}", action


@dataclass(slots=True, kw_only=True)
class _Look:
    """Looks at one action after the other, as long as there is room."""

    conn: Connection
    lookup: Lookup
    now: datetime
    room: int

    def at(self, trigger: Mapping[str, Any], action: dict[str, Any]) -> dict[str, Json]:
        """Return what is told of an action."""
        told: dict[str, Json] = {**dict.fromkeys(_COUNTED), "error": None, "truncated": True}
        if self.room <= 0:
            return told
        self.room -= OF_AN_ACTION
        zone = str((trigger.get("schedule") or {}).get("timezone", "UTC"))
        try:
            return told | self._counts(Sowing.of(self.conn, action, self.lookup.find_table, zone))
        except ActionFailed as error:
            self.room -= error.rows if isinstance(error, RosterTooLarge) else 0
            return told | {"error": error.detail, "truncated": False}

    def _counts(self, sowing: Sowing) -> dict[str, Json]:
        counts: dict[str, Json] = dict.fromkeys(_COUNTED, 0)
        counts["invalid"] = len(sowing.roster.invalid)
        self.room -= sowing.rows
        horizon = sowing.horizon(self.now)
        filling = sowing.filling(now=self.now, depth=0)
        while horizon.after < horizon.until and self.room > 0:
            filled = foresee(self.conn, filling, sowing.stretch(horizon))
            counts |= added(counts, filled)
            self.room -= filled.looked_at
            horizon = horizon.from_wall(filled.until)
        return {**counts, "truncated": horizon.after < horizon.until}
