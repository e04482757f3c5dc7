"""invoke_command: call a command that the tenant registered."""

from typing import ClassVar

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.calls import Headers, readable_url, send_signed
from shared.actions.failures import ActionFailed
from shared.actions.http import check_answer
from shared.actions.input_schemas import input_faults, input_problem
from shared.actions.schemas import ExternalActionSchema, kind, mapping, text
from shared.domain.faults import cut
from shared.domain.strict_json import Json
from shared.errors import Fault
from shared.queries.commands import find_command


class InvokeCommandSchema(ExternalActionSchema):
    """``command`` is the name of the command."""

    type = kind("invoke_command")
    command = text(limit=200)
    inputs = mapping()


class InvokeCommand:
    """POSTs the inputs to the command's URL, signed like a webhook."""

    type: ClassVar[str] = "invoke_command"
    schema: ClassVar[SchemaClass] = InvokeCommandSchema
    templated: ClassVar[tuple[str, ...]] = ("inputs",)

    def effect(self, services: Services) -> Effect:
        """Return external."""
        return "external"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse commands that the tenant does not have, and inputs that can never fit."""
        command = context.lookup.find_command(config["command"])
        if command is None:
            message = f"invoke_command command '{cut(config['command'])}' does not exist"
            return [Fault(code="action_command_unknown", pointer="/command", message=message)]
        inputs = config.get("inputs", {})
        return input_faults(inputs, command.input_schema, on_events=context.on_events)

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Send the inputs to the command as it is registered now; any 2xx is success."""
        with context.connect() as conn:
            command = find_command(conn, context.tenant_id, config["command"])
        if command is None:
            raise ActionFailed(f"the command '{config['command']}' no longer exists")
        inputs = context.render(dict(config.get("inputs", {})))
        assert isinstance(inputs, dict)
        if problem := input_problem(inputs, command.input_schema):
            raise ActionFailed(problem)
        answer = send_signed(
            context, url=readable_url(command.url), headers=Headers(), content=inputs
        )
        check_answer(answer, now=context.now)
        return {"status": answer.status}
