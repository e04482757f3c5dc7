"""The message of another tracker: clicks on links of ours that it saw. Here the message is all."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from shared.domain import strict_json
from shared.errors import InvalidInput
from shared.messaging.messages import MAX_ITEMS, VERSION, UnreadableMessage

MAX_TOKEN = 200
_KEYS = {"v", "items"}
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldClick:
    """A click that somebody tells of; the token may be that of no link."""

    token: str
    clicked_at: datetime


def read_clicks(body: bytes) -> list[ToldClick]:
    """Return the clicks in a message's body. Raises UnreadableMessage, whatever the bytes are."""
    try:
        raw = strict_json.loads(body)
    except InvalidInput as error:
        raise UnreadableMessage(f"not JSON: {error.message}") from error
    if not isinstance(raw, dict):
        raise UnreadableMessage("not an object")
    # The version first: what else a newer one holds is not ours to judge.
    if type(raw.get("v")) is not int or raw["v"] != VERSION:
        raise UnreadableMessage(f"version is not {VERSION}")
    if raw.keys() != _KEYS:
        raise UnreadableMessage(f"keys are not {', '.join(sorted(_KEYS))}")
    return list(_clicks(raw["items"]))


def _clicks(items: object) -> Iterator[ToldClick]:
    if not isinstance(items, list) or not 1 <= len(items) <= MAX_ITEMS:
        raise UnreadableMessage(f"items is not a list of 1 to {MAX_ITEMS}")
    for item in items:
        if not isinstance(item, list) or len(item) != 2:
            raise UnreadableMessage("an item is not a pair of token and instant")
        token, clicked_at = item
        if not isinstance(token, str) or not 1 <= len(token) <= MAX_TOKEN:
            raise UnreadableMessage(f"a token is not a text of 1 to {MAX_TOKEN} characters")
        yield ToldClick(token=token, clicked_at=_instant(clicked_at))


def _instant(value: object) -> datetime:
    try:
        if isinstance(value, str) and _INSTANT.fullmatch(value):
            return datetime.fromisoformat(value).astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise UnreadableMessage("an instant is not like 2026-08-27T05:02:13Z")
