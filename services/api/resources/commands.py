"""Commands that invoke_command may call: register, list, look at, alter, delete."""

from typing import Any

from services.api import fields
from services.api.auth import MODERATOR
from services.api.fields import StrictSchema
from services.api.pages import after_id, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery, TenantQuery
from shared.domain.commands import Command
from shared.queries.commands import delete_command, get_command, list_commands
from shared.usecases.manage_commands import alter_command, register_command

_COMMAND = "/commands/<id:command_id>"
_MAX_URL = 2048
_INPUT_SCHEMA = {
    "description": "JSON schema (2020-12) of the inputs, of type object; no references or patterns",
    "examples": [{"type": "object", "properties": {"to": {"type": "string"}}}],
}


class CommandSchema(StrictSchema):
    """A command."""

    id = fields.Integer(required=True)
    name = fields.Text(min=1, max=200, required=True)
    url = fields.Text(max=_MAX_URL, required=True)
    input_schema = fields.Members(required=True)
    revision = fields.Integer(required=True)
    created_at = fields.Instant(required=True)
    updated_at = fields.Instant(required=True)


class CommandPageSchema(StrictSchema):
    """A page of commands, the oldest first."""

    items = fields.Items(fields.Nested(CommandSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


class NewCommandSchema(StrictSchema):
    """A command to register; triggers name it, so its name stays."""

    name = fields.Text(min=1, max=200, required=True)
    url = fields.Text(max=_MAX_URL, required=True)
    input_schema = fields.Members(required=True, metadata=_INPUT_SCHEMA)


class CommandChangeSchema(StrictSchema):
    """What changes."""

    url = fields.Text(max=_MAX_URL)
    input_schema = fields.Members(metadata=_INPUT_SCHEMA)


def _register(call: Call) -> Answer:
    command = register_command(
        call.conn,
        tenant_id=call.tenant_id,
        name=call.body["name"],
        url=call.body["url"],
        input_schema=call.body["input_schema"],
        now=call.now,
    )
    return _answer(command, status=201)


def _list(call: Call) -> Answer:
    return page(
        call,
        list_commands(call.conn, call.tenant_id, after=after_id(call), limit=page_size(call)),
        position=lambda command: (command.id,),
        document=_document,
    )


def _get(call: Call) -> Answer:
    return _answer(get_command(call.conn, call.tenant_id, call.ids["command_id"]))


def _alter(call: Call) -> Answer:
    command = alter_command(
        call.conn,
        tenant_id=call.tenant_id,
        command_id=call.ids["command_id"],
        url=call.body.get("url"),
        input_schema=call.body.get("input_schema"),
        now=call.now,
        expected_revision=call.revision,
    )
    return _answer(command)


def _delete(call: Call) -> Answer:
    delete_command(call.conn, call.tenant_id, call.ids["command_id"])
    return Answer(status=204)


def _answer(command: Command, *, status: int = 200) -> Answer:
    return Answer(body=_document(command), status=status, revision=command.revision)


def _document(command: Command) -> dict[str, Any]:
    return {
        "id": command.id,
        "name": command.name,
        "url": command.url,
        "input_schema": command.input_schema,
        "revision": command.revision,
        "created_at": command.created_at,
        "updated_at": command.updated_at,
    }


COMMAND_ROUTES = (
    Route(
        method="POST",
        path="/commands",
        operation_id="commands.register",
        summary="Register a command",
        roles=MODERATOR,
        query=TenantQuery,
        body=NewCommandSchema,
        answers={201: CommandSchema},
        handler=_register,
        creates=True,
    ),
    Route(
        method="GET",
        path="/commands",
        operation_id="commands.list",
        summary="List commands, the oldest first",
        roles=MODERATOR,
        query=TenantPageQuery,
        answers={200: CommandPageSchema},
        handler=_list,
    ),
    Route(
        method="GET",
        path=_COMMAND,
        operation_id="commands.get",
        summary="Look at a command",
        roles=MODERATOR,
        query=TenantQuery,
        answers={200: CommandSchema},
        handler=_get,
    ),
    Route(
        method="PATCH",
        path=_COMMAND,
        operation_id="commands.alter",
        summary="Alter a command; runs use it as it is when they call it",
        roles=MODERATOR,
        query=TenantQuery,
        body=CommandChangeSchema,
        answers={200: CommandSchema},
        handler=_alter,
        versioned=True,
    ),
    Route(
        method="DELETE",
        path=_COMMAND,
        operation_id="commands.delete",
        summary="Delete a command; runs that call it then fail",
        roles=MODERATOR,
        query=TenantQuery,
        answers={204: None},
        handler=_delete,
    ),
)
