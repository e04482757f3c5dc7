"""The durable states of a table's schedule triggers, brought in line with its triggers at a save.

The table of edits in spec 1 §4: what keeps the identity, what counts windows from a new anchor or
lets the walk begin anew, what retires and what revives.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Connection

from shared.domain.records import CustomTable
from shared.domain.triggers import Trigger, TriggerState
from shared.queries.notifications import notify_due
from shared.queries.trigger_states import (
    insert_state,
    restart_walks,
    retire,
    revive,
    set_next_due,
    start_anew,
)
from shared.schedule import anchor_for
from shared.schedule.model import Schedule


def align_states(
    conn: Connection,
    before: CustomTable,
    triggers: Iterable[Trigger],
    states: Sequence[TriggerState],
    *,
    now: datetime,
) -> None:
    """Make, edit, revive and retire states so that they fit the identified ``triggers``.

    ``before`` is the table as it was, locked; ``states`` are all it ever had. No trigger changes
    its kind.
    """
    known = {state.trigger_id: state for state in states}
    stored = {one.get("id"): one for one in before.triggers or [] if isinstance(one, dict)}
    wanted = [trigger for trigger in triggers if trigger.schedule is not None]
    changed = [
        _align(conn, before, trigger, known.get(trigger.id or ""), stored.get(trigger.id), now=now)
        for trigger in wanted
    ]
    standing = {trigger.id for trigger in wanted}
    gone = [
        state.ref
        for state in states
        if state.retired_at is None and state.trigger_id not in standing
    ]
    if gone:
        retire(conn, gone, now=now)
    if any(changed):
        notify_due(conn)


def state_after(
    table: CustomTable, trigger: Trigger, state: TriggerState | None, *, now: datetime
) -> TriggerState:
    """Return the state that a save at ``now`` would leave behind; nothing is written.

    ``state`` is the trigger's, retired or not; None for a new one, whose ref is then 0: the ledger
    and the due index have nothing of it.
    """
    schedule = trigger.schedule
    assert schedule is not None
    anchor = anchor_for(schedule, saved_at=now)
    if state is None:
        return TriggerState(
            ref=0,
            tenant_id=table.tenant_id,
            table_id=table.id,
            trigger_id=trigger.id or "",
            kind=schedule.kind,
            schedule=trigger.raw["schedule"],
            anchor_at=anchor,
            last_window_at=None,
            next_due_at=None,
            cursor=None,
            caught_up=False,
            retired_at=None,
        )
    after = replace(
        state, retired_at=None, backlog=None if is_concerned(trigger, state) else state.backlog
    )
    if not is_edited(trigger, state):
        return after
    return replace(after, schedule=trigger.raw["schedule"], anchor_at=anchor, last_window_at=None)


def is_edited(trigger: Trigger, state: TriggerState) -> bool:
    """Tell whether the trigger has another schedule than the one its state belongs to."""
    return not is_same_json(trigger.raw["schedule"], state.schedule)


def is_concerned(trigger: Trigger, state: TriggerState | None) -> bool:
    """Tell whether ``on_existing`` speaks of a trigger with this state before the save.

    It does of date triggers that are new, come back, or get another column or offset.
    """
    if trigger.date_column is None:
        return False
    return state is None or state.retired_at is not None or is_edited(trigger, state)


def _align(
    conn: Connection,
    table: CustomTable,
    trigger: Trigger,
    state: TriggerState | None,
    stored: Mapping[str, Any] | None,
    *,
    now: datetime,
) -> bool:
    """Bring one state in line; True when the scheduler may have something to do at once."""
    schedule = trigger.schedule
    assert schedule is not None
    if state is None:
        _insert(conn, table, trigger, schedule, now=now)
        return trigger.enabled
    next_due_at = _first_look(trigger, now=now)
    if state.retired_at is not None:
        revive(conn, state.ref, next_due_at=next_due_at)
    if is_edited(trigger, state):
        start_anew(
            conn,
            state.ref,
            schedule=trigger.raw["schedule"],
            anchor_at=anchor_for(schedule, saved_at=now),
            next_due_at=next_due_at,
        )
    elif state.retired_at is None:
        return _keep(conn, trigger, state, stored, next_due_at)
    return trigger.enabled


def _insert(
    conn: Connection, table: CustomTable, trigger: Trigger, schedule: Schedule, *, now: datetime
) -> None:
    assert trigger.id is not None
    insert_state(
        conn,
        tenant_id=table.tenant_id,
        table_id=table.id,
        trigger_id=trigger.id,
        kind=schedule.kind,
        schedule=trigger.raw["schedule"],
        anchor_at=anchor_for(schedule, saved_at=now),
        next_due_at=_first_look(trigger, now=now),
    )


def _first_look(trigger: Trigger, *, now: datetime) -> datetime | None:
    """Return when the due pass is to look at a clock trigger: at once, then it plans itself."""
    return now if trigger.enabled and trigger.date_column is None else None


def _keep(
    conn: Connection,
    trigger: Trigger,
    state: TriggerState,
    stored: Mapping[str, Any] | None,
    next_due_at: datetime | None,
) -> bool:
    """Keep state and identity under an unchanged schedule; say what the edit wants looked at.

    Rows that a former ``when`` refused, or that came due while the trigger was off, have left the
    due index: only a new walk finds them.
    """
    if stored is not None and is_same_json(stored, trigger.raw):
        return False
    if trigger.date_column is None:
        set_next_due(conn, state.ref, next_due_at=next_due_at)
    elif trigger.enabled and not _fires_alike(stored, trigger.raw):
        restart_walks(conn, [state.ref])
    return trigger.enabled


def _fires_alike(stored: Mapping[str, Any] | None, raw: Mapping[str, Any]) -> bool:
    return stored is not None and all(
        is_same_json(stored.get(key), raw[key]) for key in ("enabled", "when")
    )


def is_same_json(one: object, other: object) -> bool:
    """Tell whether two JSON values are the same. To Python true equals 1, and 1 equals 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
