"""A save of triggers that stores nothing: what it would store, and what it would lead to."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from uuid import UUID

from psycopg import Connection

from shared.domain.on_existing import FIRE, OnExisting
from shared.domain.records import CustomTable
from shared.errors import StaleVersion
from shared.queries.custom_tables import get_table
from shared.queries.trigger_states import list_all_states
from shared.usecases.consequences import COUNT_SECONDS, Consequence, consequences_of
from shared.usecases.preview import snapshot
from shared.usecases.set_triggers import accepted_triggers


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """The table as the save would leave it, but for the ids of new triggers and its revision.

    ``consequences`` are of the triggers on schedule, in the order of the list.
    """

    table: CustomTable
    consequences: Sequence[Consequence]


def dry_run(
    conn: Connection,
    table_id: UUID,
    raw_triggers: object,
    *,
    now: datetime,
    channel_id: UUID | None = None,
    expected_revision: int | None = None,
    on_existing: OnExisting = FIRE,
    seconds: float = COUNT_SECONDS,
) -> DryRun:
    """Return what ``set_triggers`` would do, with the same checks; raises as it does.

    Rows are counted for ``seconds`` at most, from one snapshot and without a lock. No transaction
    may be open.
    """
    with snapshot(conn):
        table = get_table(conn, table_id)
        if expected_revision not in (None, table.revision):
            raise StaleVersion(f"table {table_id} was changed meanwhile")
        states = list_all_states(conn, [table_id])
        triggers = accepted_triggers(
            conn, table, states, raw_triggers, now=now, channel_id=channel_id
        )
        told = consequences_of(
            conn,
            table,
            triggers,
            {state.trigger_id: state for state in states},
            now=now,
            on_existing=on_existing,
            seconds=seconds,
        )
    stored = replace(table, triggers=[dict(trigger.raw) for trigger in triggers])
    return DryRun(table=stored, consequences=told)
