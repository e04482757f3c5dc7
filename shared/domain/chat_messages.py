"""Messages delivered to chatrooms, as values."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """A message that an action delivered."""

    id: int
    chatroom_id: UUID
    message: str
    created_at: datetime
