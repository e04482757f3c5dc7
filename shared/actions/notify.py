"""notify: deliver a message to a chatroom."""

from typing import ClassVar
from uuid import UUID

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.calls import JSON_TYPE, json_bytes, readable_url, send
from shared.actions.failures import ActionFailed
from shared.actions.http import check_answer
from shared.actions.schemas import ExternalActionSchema, identifier, kind, text
from shared.domain.strict_json import Json
from shared.domain.templates import text_of
from shared.errors import Fault
from shared.queries.chat_messages import store_message

MAX_MESSAGE = 10_000


class NotifySchema(ExternalActionSchema):
    """``on_unknown`` speaks of the gateway alone: a message is stored once in any case."""

    type = kind("notify")
    chatroom_id = identifier()
    message = text(limit=MAX_MESSAGE)


class Notify:
    """Stores the message; where the operator has a gateway, also hands it over."""

    type: ClassVar[str] = "notify"
    schema: ClassVar[SchemaClass] = NotifySchema
    templated: ClassVar[tuple[str, ...]] = ("message",)

    def effect(self, services: Services) -> Effect:
        """Return external only where there is a gateway."""
        return "internal" if services.gateway_url is None else "external"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Return nothing: the schema sees all."""
        return []

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Store the message once, whatever the number of executions, then tell the gateway."""
        message = text_of(context.render(config["message"]))
        if len(message) > MAX_MESSAGE:
            raise ActionFailed(f"the message has more than {MAX_MESSAGE} characters")
        chatroom_id = UUID(config["chatroom_id"])
        with context.connect() as conn:
            message_id = store_message(
                conn,
                tenant_id=context.tenant_id,
                chatroom_id=chatroom_id,
                message=message,
                origin_key=context.idempotency_key,
                now=context.now,
            )
        result: dict[str, Json] = {"message_id": message_id}
        if context.services.gateway_url is not None:
            content: dict[str, Json] = {
                "tenant_id": str(context.tenant_id),
                "chatroom_id": str(chatroom_id),
                "message_id": message_id,
                "message": message,
            }
            result["gateway"] = _tell_gateway(context, content, result)
        return result


def _tell_gateway(
    context: ActionContext, content: dict[str, Json], stored: dict[str, Json]
) -> Json:
    """Return the gateway's outcome; a failure tells it beside what was stored."""
    assert context.services.gateway_url is not None
    try:
        answer = send(
            context,
            method="POST",
            url=readable_url(context.services.gateway_url),
            headers=JSON_TYPE,
            body=json_bytes(content),
            trusted=True,
        )
        check_answer(answer, now=context.now)
    except ActionFailed as failure:
        raise ActionFailed(
            f"the message is stored, the gateway failed: {failure.detail}",
            transient=failure.transient,
            retry_after=failure.retry_after,
            unknown=failure.unknown,
            result={**stored, "gateway": {"ok": False, **failure.result}},
        ) from failure
    return {"ok": True, "status": answer.status}
