"""webhook: POST an event to a URL, signed."""

from typing import ClassVar

from shared.actions.action import ActionContext, CheckContext, Config, Effect, SchemaClass, Services
from shared.actions.calls import rendered_headers, rendered_url, send_signed
from shared.actions.http import check_answer
from shared.actions.schemas import ExternalActionSchema, anything, headers, kind, url
from shared.domain.columns import cells_by_name
from shared.domain.instants import instant_text
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
        """Return nothing: the schema sees all."""
        return []

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
    """Return the envelope: what fired, for which row, and the author's payload.

    It is the same on every attempt, unless the payload says ``$now``.
    """
    run = context.run
    record: Json = None
    if run.record_id is not None:
        cells = cells_by_name(run.snapshot or {}, context.columns)
        record = {"id": run.record_id, "data": cells}
    return {
        "type": "trigger.fired",
        "timestamp": instant_text(run.scheduled_for),
        "data": {
            "tenant_id": str(run.tenant_id),
            "table_id": str(run.table_id),
            "trigger": {"id": run.trigger_id, "name": context.trigger.get("name")},
            "run": {
                "id": run.id,
                "kind": run.kind,
                "scheduled_for": instant_text(run.scheduled_for),
                "identity": run.identity,
                "window_key": run.window_key,
            },
            "record": record,
            "payload": payload,
        },
    }
