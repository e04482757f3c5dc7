"""start_workflow: start an execution of a workflow of the same tenant."""

import re
from typing import ClassVar

from marshmallow import ValidationError
from psycopg import Connection

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.failures import ActionFailed
from shared.actions.schemas import ActionSchema, either, kind, mapping, text
from shared.domain.events import data_faults
from shared.domain.faults import cut
from shared.domain.line_users import LineUser
from shared.domain.strict_json import Json
from shared.domain.templates import text_of, tokens_in
from shared.domain.workflows import MAX_WORKFLOW_NAME
from shared.effects.workflow_steps import start_execution
from shared.errors import AppError, Fault
from shared.queries.line_users import find_line_user
from shared.queries.workflows import find_workflow

MAX_CONTACT_ID = 2**63 - 1
MAX_CONTACT_TOKEN = 500

_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
_NO_CONTACT = "must be the id of a contact, or one token that stands for it"


def _is_contact(value: object) -> None:
    if isinstance(value, str) and 1 <= len(value) <= MAX_CONTACT_TOKEN:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CONTACT_ID:
        raise ValidationError(_NO_CONTACT)


class StartWorkflowSchema(ActionSchema):
    """``context`` is what conditions and tokens of the workflow know as the event."""

    type = kind("start_workflow")
    workflow = text(limit=MAX_WORKFLOW_NAME)
    line_user_id = either(
        {"type": "integer", "minimum": 1, "maximum": MAX_CONTACT_ID},
        {"type": "string", "minLength": 1, "maxLength": MAX_CONTACT_TOKEN},
        validate=_is_contact,
    )
    context = mapping()


def start_faults(config: Config, context: CheckContext) -> list[Fault]:
    """Return the faults that the schema cannot see: no such workflow, a text that is no token.

    Whether a workflow would start itself is asked of the whole workflow, and not here.
    """
    faults = []
    name = config["workflow"]
    if name != context.workflow and context.lookup.find_workflow(name) is None:
        message = f"start_workflow workflow '{cut(name)}' does not exist"
        faults.append(Fault(code="action_workflow_unknown", pointer="/workflow", message=message))
    contact = config.get("line_user_id")
    if isinstance(contact, str) and not _is_one_token(contact, context):
        message = f"start_workflow line_user_id {_NO_CONTACT}"
        faults.append(Fault(code="action_invalid", pointer="/line_user_id", message=message))
    return faults


def _is_one_token(value: str, context: CheckContext) -> bool:
    tokens = tokens_in(value, on_events=context.on_events)
    return [token.end - token.start for token in tokens] == [len(value)]


class StartWorkflow:
    """Starts an execution of the workflow as it is then, once for the action's key."""

    type: ClassVar[str] = "start_workflow"
    schema: ClassVar[SchemaClass] = StartWorkflowSchema
    templated: ClassVar[tuple[str, ...]] = ("line_user_id", "context")

    def effect(self, services: Services) -> Effect:
        """Return internal."""
        return "internal"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse workflows that the tenant does not have, and a contact that is no token."""
        return start_faults(config, context)

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Record the execution with its links and its first step."""
        given = _given(config, context)
        with context.connect() as conn:
            workflow = find_workflow(conn, context.tenant_id, config["workflow"])
            if workflow is None:
                raise ActionFailed(f"the workflow '{config['workflow']}' no longer exists")
            try:
                started = start_execution(
                    conn,
                    workflow,
                    line_user=_contact(conn, config, context),
                    context=given,
                    origin_key=context.idempotency_key,
                    depth=context.depth + 1,
                    clicks=context.services.clicks,
                    now=context.now,
                )
            except AppError as error:
                raise ActionFailed(error.message) from error
        context.look_again(started.link_id)
        return {"execution_id": str(started.execution_id)}


def _given(config: Config, context: ActionContext) -> dict[str, Json]:
    """Return what the workflow knows as its event: without ``context`` that of the action."""
    if "context" not in config:
        return dict(context.template.event or {})
    given: dict[str, Json] = context.render(dict(config["context"]))
    for fault in data_faults(given):
        raise ActionFailed(fault.message)
    return given


def _contact(conn: Connection, config: Config, context: ActionContext) -> LineUser | None:
    """Return the contact that is named, else the one that the action is about, if any."""
    contact_id: int | None = (context.template.line_user or {}).get("id")
    if "line_user_id" in config:
        contact_id = _contact_id(context.render(config["line_user_id"]))
    if contact_id is None:
        return None
    line_user = find_line_user(conn, context.tenant_id, contact_id)
    if line_user is None:
        raise ActionFailed(f"contact {contact_id} does not exist")
    return line_user


def _contact_id(value: Json) -> int:
    """Return the id that a token stands for: a number, or a cell of text that has one."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MAX_CONTACT_ID:
        raise ActionFailed(f"line_user_id stands for no contact: {cut(text_of(value))}")
    return value
