"""Bundles: export, plan, apply definitions as JSON Lines (docs/bundles.md)."""

from collections.abc import Iterable, Mapping
from typing import Any, get_args

from services.api import fields
from services.api.auth import MODERATOR, TENANT_MISSING
from services.api.bulk_lines import JSON_LINES
from services.api.fields import StrictSchema
from services.api.problems import TooLarge
from services.api.resources.access import acting_tenant
from services.api.resources.triggers import ConsequenceSchema, OnExistingQuery
from services.api.routes import Answer, Call, Route, Upload
from services.api.schemas import ProblemErrorSchema, TenantQuery
from shared.db.clock import server_now
from shared.domain.bundles import KINDS, MAX_BYTES, MAX_LINES
from shared.domain.differences import Change, Op
from shared.domain.on_existing import OnExisting, read_on_existing
from shared.domain.planned import Item, PlannedAction, count_actions
from shared.errors import InvalidInput
from shared.usecases.apply_bundle import apply_bundle
from shared.usecases.bundle_state import Reach
from shared.usecases.export_bundle import export_bundle
from shared.usecases.plan_bundle import Outlook, plan_bundle

_ACTIONS = get_args(PlannedAction)
_FINGERPRINT = {"pattern": "^[0-9a-f]{64}$"}
_NOTHING = Outlook(problems=(), consequence=None)


class ChangeSchema(StrictSchema):
    """A difference: ``pointer`` leads into the line; what is added has no ``before``."""

    op = fields.Choice(*get_args(Op), required=True)
    pointer = fields.Text(max=1000, required=True)
    before = fields.Json()
    after = fields.Json()


class PlanItemSchema(StrictSchema):
    """What becomes of one resource; ``line`` is null for a trigger that goes.

    ``problems`` are what applying it will be refused for, as far as a plan can tell.
    """

    line = fields.Integer(min=1, required=True, allow_none=True)
    kind = fields.Choice(*KINDS, required=True)
    name = fields.Text(max=200, required=True)
    table = fields.Text(max=200, required=True, allow_none=True)
    trigger_id = fields.Text(max=20, required=True, allow_none=True)
    action = fields.Choice(*_ACTIONS, required=True)
    changes = fields.Items(fields.Nested(ChangeSchema), required=True)
    more_changes = fields.Boolean(required=True)
    problems = fields.Items(fields.Nested(ProblemErrorSchema), required=True)
    consequence = fields.Nested(ConsequenceSchema, required=True, allow_none=True)


class ActionCountsSchema(StrictSchema):
    """How many resources are planned each way."""

    create = fields.Integer(required=True)
    update = fields.Integer(required=True)
    delete = fields.Integer(required=True)
    noop = fields.Integer(required=True)
    adopt = fields.Integer(required=True)


class AppliedSchema(StrictSchema):
    """What was applied; triggers that were made have their ids."""

    counts = fields.Nested(ActionCountsSchema, required=True)
    items = fields.Items(fields.Nested(PlanItemSchema), required=True)


class PlanSchema(AppliedSchema):
    """What would be applied; ``fingerprint`` is the mark of the document and of what stands."""

    fingerprint = fields.Text(max=64, required=True, metadata=_FINGERPRINT)


class PlanQuery(TenantQuery, OnExistingQuery):
    """In which tenant, and what is to become of overdue values."""


class ApplyQuery(PlanQuery):
    """The plan that is applied, and no other; it was made with the same choices."""

    fingerprint = fields.Text(min=64, max=64, required=True, metadata=_FINGERPRINT)


def _export(call: Call) -> Answer:
    reach = Reach(tenant_id=acting_tenant(call), channel_id=call.caller.channel_id)
    return Answer(body=export_bundle(call.conn, reach))


def _plan(upload: Upload) -> Answer:
    reach, document = _reach(upload), _document(upload)
    with upload.questions.turn(reach.tenant_id), upload.sessions() as conn:
        planned = plan_bundle(
            conn, reach, document, now=server_now(conn), on_existing=_on_existing(upload)
        )
    told = _told(planned.plan.items, planned.outlooks)
    return Answer(body={"fingerprint": planned.fingerprint, **told})


def _apply(upload: Upload) -> Answer:
    reach, document = _reach(upload), _document(upload)
    with upload.sessions() as conn:
        items = apply_bundle(
            conn,
            reach,
            document,
            fingerprint=upload.query["fingerprint"],
            now=server_now(conn),
            on_existing=_on_existing(upload),
        )
    return Answer(body=_told(items, {}))


def _reach(upload: Upload) -> Reach:
    if upload.caller.tenant_id is None:
        raise InvalidInput.of([TENANT_MISSING])
    return Reach(tenant_id=upload.caller.tenant_id, channel_id=upload.caller.channel_id)


def _on_existing(upload: Upload) -> OnExisting:
    return read_on_existing(upload.query["on_existing"], upload.query["per_minute"])


def _document(upload: Upload) -> bytes:
    """Return the whole body, before a session is taken. Raises TooLarge."""
    read = bytearray()
    lines = 1
    for piece in upload.pieces:
        read += piece
        lines += piece.count(b"\n")
        if len(read) > MAX_BYTES or lines > MAX_LINES:
            message = f"a bundle has at most {MAX_BYTES} bytes and {MAX_LINES} lines"
            raise TooLarge(message, code="bundle_too_large")
    return bytes(read)


def _told(items: Iterable[Item], outlooks: Mapping[int, Outlook]) -> dict[str, Any]:
    items = list(items)
    return {
        "counts": count_actions(items),
        "items": [_item(item, outlooks.get(item.line or 0, _NOTHING)) for item in items],
    }


def _item(item: Item, outlook: Outlook) -> dict[str, Any]:
    return {
        "line": item.line,
        "kind": item.kind,
        "name": item.name,
        "table": item.table,
        "trigger_id": item.trigger_id,
        "action": item.action,
        "changes": [_change(change) for change in item.changes],
        "more_changes": item.more_changes,
        "problems": [
            {"pointer": fault.pointer, "code": fault.code, "detail": fault.message}
            for fault in outlook.problems
        ],
        "consequence": outlook.consequence,
    }


def _change(change: Change) -> dict[str, Any]:
    told = {"op": change.op, "pointer": change.pointer}
    if change.op != "add":
        told["before"] = change.before
    if change.op != "remove":
        told["after"] = change.after
    return told


BUNDLE_ROUTES = (
    Route(
        method="GET",
        path="/bundle",
        operation_id="bundle.export",
        summary="Export all definitions as JSON Lines, which plan as nothing to do",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: None},
        produces=JSON_LINES,
        handler=_export,
        conflicts=True,
        own_transactions=True,
    ),
    Route(
        method="POST",
        path="/bundle/plan",
        operation_id="bundle.plan",
        summary="See what applying a bundle would change, and what that would lead to",
        roles=MODERATOR,
        query=PlanQuery,
        answers={200: PlanSchema},
        upload=_plan,
        media=(JSON_LINES,),
    ),
    Route(
        method="POST",
        path="/bundle/apply",
        operation_id="bundle.apply",
        summary="Apply a bundle exactly as it was planned, whole or not at all",
        roles=MODERATOR,
        query=ApplyQuery,
        answers={200: AppliedSchema},
        upload=_apply,
        media=(JSON_LINES,),
        conflicts=True,
    ),
)
