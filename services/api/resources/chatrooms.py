"""Messages that notify delivered to a chatroom."""

from typing import Any

from services.api import fields
from services.api.auth import MESSAGE_READERS
from services.api.fields import StrictSchema
from services.api.pages import after_id, page, page_size
from services.api.routes import Answer, Call, Route
from services.api.schemas import TenantPageQuery
from shared.domain.chat_messages import ChatMessage
from shared.queries.chat_messages import list_messages


class MessageSchema(StrictSchema):
    """A message."""

    id = fields.Integer(required=True)
    chatroom_id = fields.Uuid(required=True)
    message = fields.Text(max=10_000, required=True)
    created_at = fields.Instant(required=True)


class MessagePageSchema(StrictSchema):
    """A page of messages, the newest first."""

    items = fields.Items(fields.Nested(MessageSchema), required=True)
    next_cursor = fields.Text(max=600, required=True, allow_none=True)


def _list(call: Call) -> Answer:
    found = list_messages(
        call.conn,
        tenant_id=call.tenant_id,
        chatroom_id=call.ids["chatroom_id"],
        before=after_id(call),
        limit=page_size(call),
    )
    return page(call, found, position=lambda message: (message.id,), document=_document)


def _document(message: ChatMessage) -> dict[str, Any]:
    return {
        "id": message.id,
        "chatroom_id": message.chatroom_id,
        "message": message.message,
        "created_at": message.created_at,
    }


CHATROOM_ROUTES = (
    Route(
        method="GET",
        path="/chatrooms/<uuid:chatroom_id>/messages",
        operation_id="chatrooms.messages",
        summary="List a chatroom's messages, the newest first; an unknown chatroom has none",
        roles=MESSAGE_READERS,
        query=TenantPageQuery,
        answers={200: MessagePageSchema},
        handler=_list,
    ),
)
