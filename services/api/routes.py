"""What a route is: its address, who may call it, its schemas, its handler. Flask serves it, and the
OpenAPI document describes it, from this one value."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

from marshmallow import Schema

from services.api.auth import Caller, Scope
from services.api.bodies import JSON
from services.api.cursors import Cursors, Position
from services.api.dependencies import Sessions
from services.api.fields import StrictSchema
from services.api.long_questions import LongQuestions
from shared.db.tenant_session import TenantSession
from shared.domain.scp_rules import Operation
from shared.domain.tenants import Role
from shared.sealing import Sealer
from shared.tracking.click_store import ClickStore
from shared.usecases.tenant_limits import WaitingLimit

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a handler says. ``body`` is dumped by the schema of the status; None is no body.

    ``revision`` becomes the ETag. Members named in ``secrets`` are told once: a replay of the
    answer under its Idempotency-Key has null in their place.
    """

    body: object = None
    status: int = 200
    revision: int | None = None
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request, read, authenticated and authorised.

    ``query`` and ``body`` are what their schemas loaded. ``position`` is where the page of a list
    begins, None at the start. ``revision`` is the one that If-Match names, ``acts`` the route's.
    What a handler puts into ``after_commit`` is done when its transaction has committed, in no
    transaction; it may fail.
    """

    conn: TenantSession
    now: datetime
    caller: Caller
    scope: Scope
    acts: Operation | None = None
    ids: Mapping[str, Any]
    query: Mapping[str, Any]
    body: Mapping[str, Any]
    revision: int | None
    position: Position | None
    cursors: Cursors
    clicks: ClickStore
    public_url: str
    waiting: WaitingLimit
    sealer: Sealer
    questions: LongQuestions
    after_commit: list[Callable[[], None]] = field(default_factory=list)

    @property
    def tenant_id(self) -> UUID:
        """The tenant that the call acts in; only routes of the root scope may have none."""
        assert self.caller.tenant_id is not None
        return self.caller.tenant_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A request whose body is read while it is worked on.

    No session is held while bytes are waited for: the handler takes one per batch.
    """

    sessions: Sessions
    caller: Caller
    scope: Scope
    acts: Operation | None = None
    ids: Mapping[str, Any]
    query: Mapping[str, Any]
    questions: LongQuestions
    media: str
    pieces: Iterator[bytes]
    key: str | None


Handler = Callable[[Call], Answer]
UploadHandler = Callable[[Upload], Answer]


class NoQuery(StrictSchema):
    """A route without parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A route below the address of its mount; it has a ``handler`` or an ``upload``.

    ``creates``: takes an Idempotency-Key and runs in one transaction with it. ``versioned``: takes
    If-Match. ``acts``: what it does with records, which a table's rules for chatrooms have to let
    a caller of its channel do; there it takes X-Acting-Chatroom. ``conflicts``: may answer 409.
    ``media``: what an upload may be. ``body_optional``: no body is an empty object.
    ``untagged``: answers without ETag, though what it tells has a version. ``produces``: what its
    answers are; those that are no JSON are texts. ``own_transactions``: the handler makes its own;
    else it runs in one. ``across_tenants``: an admin who names no tenant is served by a session
    that sees the rows of all.
    """

    method: Method
    path: str
    operation_id: str
    summary: str
    roles: frozenset[Role]
    answers: Mapping[int, type[Schema] | None]
    handler: Handler | None = None
    upload: UploadHandler | None = None
    media: tuple[str, ...] = (JSON,)
    acts: Operation | None = None
    produces: str = JSON
    query: type[Schema] = NoQuery
    body: type[Schema] | None = None
    body_optional: bool = False
    creates: bool = False
    versioned: bool = False
    conflicts: bool = False
    untagged: bool = False
    own_transactions: bool = False
    across_tenants: bool = False
