"""Strict marshmallow fields: a value of another JSON type is refused, never converted."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any
from uuid import UUID

from marshmallow import Schema, ValidationError, fields, validate

from shared.domain import strict_json
from shared.domain.faults import child, in_document_order
from shared.errors import Fault, InvalidInput

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_DIGITS = re.compile(r"[0-9]{1,19}", re.ASCII)
_INSTANT = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?"
    r"(?:Z|[+-][0-9]{2}:[0-9]{2})?",
    re.ASCII,
)

MAX_ID = 2**63 - 1
# No schema has so many; telling each of a hundred thousand unknown ones would take a second.
_MAX_FIELDS = 200

_MAX_KNOWN = 20

Options = Any
"""What marshmallow's fields take: required, allow_none, load_default, metadata, …"""

_UNKNOWN = "is not a known field"
_MISSING = "is missing"
_OBJECT = "must be an object"


def _unknown(known: Sequence[str]) -> str:
    """Return what is said of a field that is none of ``known``."""
    if not known:
        return f"{_UNKNOWN}: there is none"
    told = ", ".join(known[:_MAX_KNOWN])
    return f"{_UNKNOWN}; known are: {told}{', …' if len(known) > _MAX_KNOWN else ''}"


def _messages(invalid: str) -> dict[str, Any]:
    kinds = ("invalid", "invalid_uuid", "type")
    return {"required": _MISSING, "null": "must not be null", **dict.fromkeys(kinds, invalid)}


_SCHEMA_MESSAGES = {"unknown": _UNKNOWN, "type": _OBJECT}
_ANY = _messages("is not valid")
_TEXT = _messages("must be a text")
_INTEGER = _messages("must be an integer")
_BOOLEAN = _messages("must be true or false")
_IS_UUID = _messages("must be a UUID")
_LIST = _messages("must be a list")
_IS_OBJECT = _messages(_OBJECT)
_IS_INSTANT = _messages("must be like 2026-08-27T05:02:13Z")


class StrictSchema(Schema):
    """A JSON object; fields that are not declared are refused."""

    error_messages = _SCHEMA_MESSAGES

    def __init__(self, **options: Options) -> None:
        super().__init__(**options)
        known = [field.data_key or name for name, field in self.load_fields.items()]
        self.error_messages["unknown"] = _unknown(known)

    def get_attribute(self, obj: object, attr: str, default: object) -> object:
        """Return a member of what is dumped, a dictionary or a value of ours, by its plain name."""
        return obj.get(attr, default) if type(obj) is dict else getattr(obj, attr, default)


class Text(fields.String):
    """A text of ``min`` to ``max`` characters."""

    default_error_messages = _TEXT

    def __init__(self, *, min: int = 0, max: int, **options: Options) -> None:
        message = f"must have {min} to {max} characters"
        super().__init__(validate=validate.Length(min=min, max=max, error=message), **options)


class Choice(fields.String):
    """One of a few texts."""

    default_error_messages = _TEXT

    def __init__(self, *choices: str, **options: Options) -> None:
        message = f"must be one of: {', '.join(choices)}"
        super().__init__(validate=validate.OneOf(choices, error=message), **options)


class Integer(fields.Integer):
    """An integer; booleans and floats are none."""

    default_error_messages = _INTEGER

    def __init__(self, *, min: int = 0, max: int = MAX_ID, **options: Options) -> None:
        message = f"must be an integer from {min} to {max}"
        validator = validate.Range(min=min, max=max, error=message)
        super().__init__(strict=True, validate=validator, **options)

    def _validated(self, value: object) -> int:
        if isinstance(value, bool):
            raise self.make_error("invalid")
        return super()._validated(value)


class Boolean(fields.Boolean):
    """true or false."""

    default_error_messages = _BOOLEAN

    def _deserialize(
        self, value: object, attr: str | None, data: object, **options: object
    ) -> bool:
        if not isinstance(value, bool):
            raise self.make_error("invalid")
        return value


class Uuid(fields.UUID):
    """A UUID in its usual form; Python alone would also take braces, ``urn:`` and no hyphens."""

    default_error_messages = _IS_UUID

    def _validated(self, value: object) -> UUID:
        if isinstance(value, str) and not _UUID.fullmatch(value):
            raise self.make_error("invalid_uuid")
        return super()._validated(value)


class Items(fields.List[Any]):
    """A list; an object is none."""

    default_error_messages = _LIST

    def _deserialize(
        self, value: object, attr: str | None, data: object, **options: object
    ) -> list[Any]:
        if not isinstance(value, list):
            raise self.make_error("invalid")
        return super()._deserialize(value, attr, data, **options)


class Nested(fields.Nested):
    """An object with a schema of its own."""

    default_error_messages = _IS_OBJECT


class Members(fields.Dict):
    """An object whose keys the caller chooses."""

    default_error_messages = _IS_OBJECT


class Json(fields.Raw):
    """Any JSON value; what it means is judged further in."""

    default_error_messages = _ANY


class Instant(fields.DateTime):
    """An instant to the microsecond: RFC 3339, told in UTC with a ``Z``.

    Read with any offset; without one, as preview tells instants, it is UTC.
    """

    default_error_messages = _IS_INSTANT

    def _serialize(
        self, value: object, attr: str | None, obj: object, **options: object
    ) -> str | None:
        if value is None:
            return None
        assert isinstance(value, datetime)
        return f"{value.astimezone(UTC).replace(tzinfo=None).isoformat()}Z"

    def _deserialize(
        self, value: object, attr: str | None, data: object, **options: object
    ) -> datetime:
        if not isinstance(value, str) or not _INSTANT.fullmatch(value):
            raise self.make_error("invalid")
        try:
            read = datetime.fromisoformat(value)
            return read.replace(tzinfo=read.tzinfo or UTC).astimezone(UTC)
        except (ValueError, OverflowError) as error:
            raise self.make_error("invalid") from error


class Second(fields.String):
    """An instant as preview tells it: UTC without a zone, cut to the second. Only dumped."""

    def _serialize(
        self, value: object, attr: str | None, obj: object, **options: object
    ) -> str | None:
        if value is None:
            return None
        assert isinstance(value, datetime)
        return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds")


class QueryInteger(Integer):
    """An integer in a query: decimal digits alone."""

    def _deserialize(self, value: object, attr: str | None, data: object, **options: object) -> int:
        if not isinstance(value, str) or not _DIGITS.fullmatch(value):
            raise self.make_error("invalid")
        return super()._deserialize(int(value), attr, data, **options)


class QueryBoolean(Boolean):
    """``true`` or ``false`` in a query."""

    def _deserialize(
        self, value: object, attr: str | None, data: object, **options: object
    ) -> bool:
        return super()._deserialize({"true": True, "false": False}.get(str(value)), attr, data)


class QueryJson(Json):
    """A JSON value written into a query."""

    def _deserialize(
        self, value: object, attr: str | None, data: object, **options: object
    ) -> strict_json.Json:
        try:
            return strict_json.loads(str(value).encode())
        except InvalidInput as error:
            raise ValidationError(f"cannot be read: {error.message}") from error


@cache
def made(schema: type[Schema]) -> Schema:
    """Return the one instance of a schema: making one costs as much as using it, and more below.

    Threads share it: reading and dumping leave it as it is.
    """
    return schema()


def load(schema: type[Schema], raw: strict_json.Json) -> dict[str, Any]:
    """Return ``raw`` read by a schema; raises InvalidInput with all that is wrong."""
    if isinstance(raw, dict) and len(raw) > _MAX_FIELDS:
        fault = Fault(code="field_unknown", pointer="", message=f"it has {len(raw)} fields")
        raise InvalidInput.of([fault])
    try:
        loaded: dict[str, Any] = made(schema).load(raw)
    except ValidationError as error:
        raise InvalidInput.of(in_document_order(raw, _faults(error.messages, ""))) from error
    return loaded


def _faults(messages: object, pointer: str) -> Iterator[Fault]:
    """Yield marshmallow's tree of messages as faults."""
    if isinstance(messages, Mapping):
        for key, below in messages.items():
            yield from _faults(below, pointer if key == "_schema" else child(pointer, key))
        return
    assert isinstance(messages, list)
    for message in messages:
        yield Fault(code=_code(message), pointer=pointer, message=f"{_name(pointer)} {message}")


def _code(message: str) -> str:
    if message.startswith(_UNKNOWN):
        return "field_unknown"
    return "field_missing" if message == _MISSING else "field_invalid"


def _name(pointer: str) -> str:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    return ".".join(steps)[:200] or "the body"
