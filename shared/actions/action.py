"""What an action type is: schema, checks at save, execution; and what these are given."""

from collections.abc import Callable, Container, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Literal, Protocol
from uuid import UUID

from psycopg import Connection

from shared.actions.failures import ActionFailed
from shared.actions.http import HttpCaller
from shared.actions.schemas import ActionSchema
from shared.actions.signing_keys import SigningKeys
from shared.domain.columns import Column
from shared.domain.commands import Command
from shared.domain.delays import Place
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.domain.templates import TemplateContext, render
from shared.domain.triggers import On, ScheduleKind
from shared.domain.work import WorkKind
from shared.domain.workflows import Workflow
from shared.effects.delays import after_schedule
from shared.errors import Fault, InvalidInput
from shared.sealing import Sealer
from shared.tracking.click_store import ClickStore

__all__ = [
    "Action",
    "ActionContext",
    "ActionFailed",
    "CheckContext",
    "Config",
    "Effect",
    "Lookup",
    "SchemaClass",
    "Services",
    "Unfinished",
]

Effect = Literal["internal", "stepwise", "external"]
"""Where an action acts: in our database, at once or in steps, or at somebody else's."""
Config = Mapping[str, Any]
"""The settings of one action as authored, tokens and all."""
SchemaClass = type[ActionSchema]


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """What a stepwise action has done so far; it is executed again, and given it as ``progress``.

    ``detail`` is for people who look meanwhile.
    """

    progress: Mapping[str, Json]
    detail: str


class Lookup(Protocol):
    """Answers what exists for the tenant whose actions are checked; another tenant's is absent."""

    def find_table(self, table_id: UUID) -> CustomTable | None:
        """Return the live table of the tenant, or None."""
        ...

    def find_command(self, name: str) -> Command | None:
        """Return the command of the tenant, or None."""
        ...

    def find_workflow(self, name: str) -> Workflow | None:
        """Return the workflow of the tenant, or None."""
        ...

    def has_secret(self, name: str) -> bool:
        """Return whether the tenant has a secret of this name."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckContext:
    """What a save-time check may know.

    ``on``, ``schedule_kind`` and ``columns`` are the trigger's and its table's; rules and workflows
    have none. ``links`` and ``workflow`` are names of the workflow that the action stands in: those
    of its links, and its own.
    """

    place: Place
    lookup: Lookup
    on: On | None = None
    schedule_kind: ScheduleKind | None = None
    columns: tuple[Column, ...] = ()
    links: Container[str] = ()
    workflow: str | None = None

    @property
    def on_events(self) -> bool:
        """Whether the tokens of events, contacts and links count."""
        return self.place != "trigger"


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What executing actions needs of the process; one for all threads of a worker.

    ``public_url`` is where people reach the API, and so the links they click. ``sealer`` reads the
    secrets that headers name.
    """

    http: HttpCaller
    gateway_url: str | None
    deadline_seconds: float
    clicks: ClickStore
    public_url: str
    signing_keys: SigningKeys = field(default_factory=SigningKeys)
    sealer: Sealer = field(default_factory=Sealer)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionContext:
    """One execution of one action, whatever led to it.

    ``work_kind`` and ``work_id`` name the row whose action it is, ``table_id`` and ``record_id``
    its subject, if that is a table or a row of one; ``columns`` are that table's as frozen.
    ``depth`` counts the triggers that set off each other up to here, ``starts`` the starts of the
    work. ``template`` is what tokens stand for, ``about`` the event that a webhook tells, without
    its payload (docs/webhooks.md). ``now`` is the start of this execution. ``connect`` gives a
    session: for an internal action the open transaction in which its receipt is written too, for an
    external one a session of the pool, which is not held during the call. What an action puts into
    ``after_commit`` is done once its receipt is committed.
    ``schedule_zone`` is the name of the schedule's zone. ``progress`` is what an earlier execution
    of a stepwise action left.
    """

    tenant_id: UUID
    work_kind: WorkKind
    work_id: int
    table_id: UUID | None
    record_id: int | None
    depth: int
    starts: int
    template: TemplateContext
    columns: tuple[Column, ...]
    about: Mapping[str, Json]
    now: datetime
    idempotency_key: str
    services: Services
    connect: Callable[[], AbstractContextManager[Connection]]
    after_commit: list[Callable[[], None]] = field(default_factory=list)
    schedule_zone: str = "UTC"
    progress: Mapping[str, Json] | None = None

    def render(self, value: Json, *, template: TemplateContext | None = None) -> Json:
        """Return ``value`` with its tokens replaced. Raises ActionFailed when that grows too long.

        ``template`` stands in for the context's own.
        """
        try:
            return render(value, template or self.template)
        except InvalidInput as error:
            raise ActionFailed(error.message) from error

    def look_again(self, link_id: int | None) -> None:
        """Have a link looked at once more when the wait for it, just recorded, is committed.

        None: nothing waits.
        """
        if link_id is not None:
            self.after_commit.append(partial(self._look_again, link_id))

    def _look_again(self, link_id: int) -> None:
        with self.connect() as conn:
            after_schedule(
                conn, tenant_id=self.tenant_id, link_id=link_id, clicks=self.services.clicks
            )


class Action(Protocol):
    """An action type; its one instance holds no state.

    ``templated`` names the keys of the settings in which tokens are replaced.
    """

    type: ClassVar[str]
    schema: ClassVar[SchemaClass]
    templated: ClassVar[tuple[str, ...]]

    def effect(self, services: Services) -> Effect:
        """Return whether an execution stays in our database or can be sent twice.

        Stepwise: it stays there, and may take more than one transaction.
        """
        ...

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Return the faults that the schema cannot see; pointers are relative to the action.

        Asked only when the settings fit the schema.
        """
        ...

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json] | Unfinished:
        """Do it, and return what the receipt tells beside the common keys. Raises ActionFailed.

        A stepwise action may return after a step.
        """
        ...
