"""webhook: POST an event to a URL, signed."""

from typing import ClassVar

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.calls import rendered_headers, rendered_url, send_signed
from shared.actions.http import check_answer
from shared.actions.schemas import ExternalActionSchema, anything, headers, kind, url
from shared.actions.secrets import secret_faults
from shared.domain.strict_json import Json
from shared.errors import Fault


class WebhookSchema(ExternalActionSchema):
    """``payload`` is the author's own part of the event."""

    type = kind("webhook")
    url = url()
    headers = headers()
    payload = anything()


class Webhook:
    """Sends the event that docs/webhooks.md describes."""

    type: ClassVar[str] = "webhook"
    schema: ClassVar[SchemaClass] = WebhookSchema
    templated: ClassVar[tuple[str, ...]] = ("url", "headers", "payload")

    def effect(self, services: Services) -> Effect:
        """Return external."""
        return "external"

    def check(self, config: Config, context: CheckContext) -> list[Fault]:
        """Refuse headers that name a secret which the tenant does not have."""
        return list(secret_faults(config, context))

    def execute(self, config: Config, context: ActionContext) -> dict[str, Json]:
        """Send the event; any 2xx is success."""
        answer = send_signed(
            context,
            url=rendered_url(config["url"], context),
            headers=rendered_headers(config.get("headers", {}), context),
            content=event(context, payload=context.render(config.get("payload"))),
        )
        check_answer(answer, now=context.now)
        return {"status": answer.status}


def event(context: ActionContext, *, payload: Json) -> dict[str, Json]:
    """Return the envelope: what led to the action, and the author's payload.

    It is the same on every attempt, unless the payload says ``$now``.
    """
    about = context.about
    data = about["data"]
    assert isinstance(data, dict)
    return {**about, "data": {**data, "payload": payload}}
