"""start_workflow: start an execution of a workflow of the same tenant."""

from marshmallow import ValidationError

from shared.actions.action import CheckContext, Config
from shared.actions.schemas import ActionSchema, either, kind, mapping, text
from shared.domain.faults import cut
from shared.domain.templates import tokens_in
from shared.domain.workflows import MAX_WORKFLOW_NAME
from shared.errors import Fault

MAX_CONTACT_ID = 2**63 - 1
MAX_CONTACT_TOKEN = 500

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
