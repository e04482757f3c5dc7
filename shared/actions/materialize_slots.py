"""materialize_slots: spread the lines of a roster into bookable slots over the days ahead."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from marshmallow import ValidationError, fields
from psycopg import Connection

from shared.actions.action import (
    ActionContext,
    CheckContext,
    Config,
    Effect,
    SchemaClass,
    Services,
    Unfinished,
)
from shared.actions.failures import ActionFailed
from shared.actions.record_cells import columns_as_frozen, columns_as_known
from shared.actions.schemas import (
    ActionSchema,
    PartSchema,
    flag,
    identifier,
    integer,
    kind,
    nested,
    text,
    values,
)
from shared.actions.slot_plans import FindTable, NameColumns, SlotPlan, as_they_are, read_plan
from shared.domain.columns import MAX_NAME, Column
from shared.domain.faults import cut
from shared.domain.records import CustomTable
from shared.domain.rosters import Roster, read_roster, wall_text
from shared.domain.strict_json import Json
from shared.effects.slot_writes import Filled, Filling, fill
from shared.errors import AppError, Fault
from shared.queries.custom_tables import find_table
from shared.queries.records import MAX_CHARACTERS, list_records
from shared.schedule.slots import MINUTES_OF_A_DAY, Grid, Horizon, Stretch, first_stretch
from shared.schedule.zones import find_zone

MAX_HORIZON_DAYS = 90
MAX_ROWS = 10_000
"""Rows of a roster, with those that ``when`` leaves out."""
SLOTS_OF_A_STEP = 5_000
"""What a transaction looks at at most: about a second on a busy machine, and none may take five."""

_COUNTED = ("created", "kept", "pruned")


def _check_zone(name: str) -> None:
    if find_zone(name) is None:
        raise ValidationError(
            f"'{cut(name)}' is not a known IANA zone. "
            "use an IANA name like 'Asia/Taipei' or 'America/New_York'"
        )


class RosterTooLarge(ActionFailed):
    """A roster has more than is read; ``rows`` of it were."""

    def __init__(self, detail: str, *, rows: int) -> None:
        super().__init__(detail)
        self.rows = rows


class SlotRosterSchema(PartSchema):
    """The table of lines, and its columns by what they say; either ``weekday`` or ``date``."""

    table_id = identifier()
    resource = text(limit=MAX_NAME)
    weekday = text(limit=MAX_NAME, required=False)
    date = text(limit=MAX_NAME, required=False)
    start = text(limit=MAX_NAME)
    end = text(limit=MAX_NAME)
    valid_from = text(limit=MAX_NAME, required=False)
    valid_to = text(limit=MAX_NAME, required=False)
    when = values()


class SlotTargetSchema(PartSchema):
    """The table of slots, and its columns by what they say."""

    table_id = identifier()
    resource = text(limit=MAX_NAME)
    start = text(limit=MAX_NAME)
    end = text(limit=MAX_NAME)
    status = text(limit=MAX_NAME)


class MaterializeSlotsSchema(ActionSchema):
    """``timezone`` is the schedule's where it is left out."""

    type = kind("materialize_slots")
    roster = nested(SlotRosterSchema)
    target = nested(SlotTargetSchema)
    slot_minutes = integer(5, MINUTES_OF_A_DAY, required=True)
    gap_minutes = integer(0, MINUTES_OF_A_DAY)
    horizon_days = integer(1, MAX_HORIZON_DAYS, required=True)
    timezone = fields.String(
        validate=_check_zone,
        error_messages={
            "null": "must not be null",
            "invalid": "must be an IANA name string (e.g. 'Asia/Taipei')",
        },
    )
    prune = flag()


class MaterializeSlots:
    """Makes the slots ahead what the roster yields, in as many steps as there are slots for."""

    type: ClassVar[str] = "materialize_slots"
    schema: ClassVar[SchemaClass] = MaterializeSlotsSchema
    templated: ClassVar[tuple[str, ...]] = ()

    def effect(self, services: Services) -> Effect:
        """Return stepwise."""
        return "stepwise"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse tables that the tenant does not have or that take no slots, and wrong columns."""
        _, faults = read_plan(config, context.lookup.find_table)
        return faults

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json] | Unfinished:
        """Do the next step: it goes on where the one before it ended."""
        progress = context.progress or {}
        with context.connect() as conn:
            sowing = Sowing.of(
                conn,
                config,
                _tables_of(conn, context),
                context.schedule_zone,
                name_columns=partial(_columns_as_named, conn, config, context),
            )
            horizon = sowing.horizon(context.now, since=progress.get("until"))
            stretch = sowing.stretch(horizon)
            filling = sowing.filling(now=context.now, depth=context.depth + 1)
            try:
                filled = fill(conn, filling, stretch)
            except AppError as error:
                raise ActionFailed(error.message) from error
        counts = added(progress, filled)
        if filled.until < horizon.until:
            reached = wall_text(filled.until)
            return Unfinished(
                progress={**counts, "until": reached}, detail=f"slots are made up to {reached}"
            )
        return {**counts, **sowing.roster.told()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sowing:
    """What an action is about to do, read from its settings, the tables and the roster's rows.

    ``rows`` is how many the roster has, with those that ``when`` leaves out.
    """

    config: Config
    plan: SlotPlan
    roster: Roster
    rows: int
    zone: tzinfo

    @classmethod
    def of(
        cls,
        conn: Connection,
        config: Config,
        find_table: FindTable,
        schedule_zone: str,
        *,
        name_columns: NameColumns = as_they_are,
    ) -> "Sowing":
        """Read it. Raises ActionFailed when it cannot be done as things are now."""
        plan, faults = read_plan(config, find_table, name_columns)
        if plan is None:
            raise ActionFailed(faults[0].message)
        name = config.get("timezone", schedule_zone)
        zone = find_zone(name)
        if zone is None:
            raise ActionFailed(f"'{cut(name)}' is not a known zone")
        roster, rows = _roster(conn, plan)
        return cls(config=config, plan=plan, roster=roster, rows=rows, zone=zone)

    @property
    def size(self) -> int:
        """How many slots a step looks at: each trigger of theirs may make as many rows again.

        Not less than a tenth, since each step reads the roster anew.
        """
        triggers = len(self.plan.target.triggers or [])
        return max(SLOTS_OF_A_STEP // (1 + triggers), SLOTS_OF_A_STEP // 10, 1)

    def horizon(self, now: datetime, *, since: object = None) -> Horizon:
        """Return the days ahead, from the wall time ``since`` on."""
        horizon = Horizon.of(now, days=self.config["horizon_days"], zone=self.zone)
        if horizon is None:
            raise ActionFailed("there are no days ahead")
        if since is None:
            return horizon
        return horizon.from_wall(datetime.fromisoformat(str(since)).replace(tzinfo=self.zone))

    def stretch(self, horizon: Horizon) -> Stretch:
        """Return the slots of the next step."""
        grid = Grid(
            slot_minutes=self.config["slot_minutes"],
            gap_minutes=self.config.get("gap_minutes", 0),
            zone=self.zone,
        )
        return first_stretch(self.roster.lines, grid, horizon, size=self.size)

    def filling(self, *, now: datetime, depth: int) -> Filling:
        """Return how the table of slots is filled."""
        return Filling(
            table=self.plan.target,
            columns=self.plan.slots,
            roster=self.plan.roster,
            prune=self.config.get("prune", False),
            most=self.size,
            depth=depth,
            now=now,
        )


def added(counts: Mapping[str, Any], filled: Filled) -> dict[str, Json]:
    """Return the counts of several steps, with one more."""
    return {name: counts.get(name, 0) + getattr(filled, name) for name in _COUNTED}


def _tables_of(conn: Connection, context: ActionContext) -> FindTable:
    def find(table_id: UUID) -> CustomTable | None:
        table = find_table(conn, table_id)
        if table is None or table.trashed_at or table.tenant_id != context.tenant_id:
            return None
        return table

    return find


def _columns_as_named(
    conn: Connection, config: Config, context: ActionContext, table: CustomTable
) -> tuple[Column, ...]:
    """Return the columns of a table under the names that they had when the run was made.

    By them the table itself is not to be read: its triggers know the present ones.
    """
    if table.id == context.table_id:
        return columns_as_frozen(table, context)
    return columns_as_known(conn, table, _names_in(config, table))


def _names_in(config: Config, table: CustomTable) -> list[str]:
    """Return the names by which an action knows the columns of a table."""
    parts = [
        part for part in (config["roster"], config["target"]) if UUID(part["table_id"]) == table.id
    ]
    named = [name for part in parts for name in part.values() if isinstance(name, str)]
    return named + [one["column"] for part in parts for one in part.get("when", [])]


def _roster(conn: Connection, plan: SlotPlan) -> tuple[Roster, int]:
    """Return the roster of a plan, and how many rows it has."""
    page = list_records(conn, plan.roster, limit=MAX_ROWS, predicates=plan.when)
    if page.after is not None:
        many = page.seen > MAX_ROWS
        most = f"rows than are read at most: {MAX_ROWS}"
        long = f"characters than are read at most: {MAX_CHARACTERS}"
        raise RosterTooLarge(f"the roster has more {most if many else long}", rows=page.seen)
    return read_roster(page.records, plan.lines, plan.slots), page.seen
