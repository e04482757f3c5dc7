"""The schemas that action types share: common keys, fields, and faults instead of errors.

Every message continues "<action type> <key> …", so that it can stand alone.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any

from marshmallow import Schema, ValidationError, fields, validate

from shared.actions.headers import header_faults
from shared.actions.urls import parse_url
from shared.domain.faults import child, cut, unknown_keys
from shared.domain.secrets import MAX_PREFIX, NAME_PATTERN, is_secret_name
from shared.domain.strict_json import Json
from shared.domain.templates import tokens_in
from shared.errors import Fault

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_SCHEMA_MESSAGES = {"type": "must be an object"}
_MESSAGES: dict[str, str | list[Any] | dict[Any, Any]] = {
    "required": "is required",
    "null": "must not be null",
    "validator_failed": "is not valid",
}


_Options = Any
"""What marshmallow gives a schema within another."""


def _name_keys(schema: Schema) -> None:
    """Let a refusal of an unknown key name those that there are."""
    schema.error_messages["unknown"] = f"is not a known key. keys: {', '.join(schema.fields)}"


class ActionSchema(Schema):
    """The keys that every action may have. Unknown keys are refused.

    ``on_events``: tokens of events, contacts and links count. ``delay`` is described here, and read
    by ``read_delay`` alone.
    """

    error_messages = _SCHEMA_MESSAGES

    def __init__(self, *, on_events: bool = False) -> None:
        super().__init__()
        self.on_events = on_events
        _name_keys(self)

    delay = fields.Raw(metadata={"allOf": [{"$ref": "#/components/schemas/Delay"}]})
    name = fields.String(
        validate=validate.Length(max=200, error="must have at most 200 characters"),
        error_messages={**_MESSAGES, "invalid": "must be a text"},
    )
    on_error = fields.String(
        validate=validate.OneOf(["stop", "continue"], error="must be one of: {choices}"),
        load_default="stop",
        error_messages={**_MESSAGES, "invalid": "must be a text"},
    )


class ExternalActionSchema(ActionSchema):
    """The keys of actions that call somebody else."""

    on_unknown = fields.String(
        validate=validate.OneOf(["retry", "fail"], error="must be one of: {choices}"),
        load_default="retry",
        error_messages={**_MESSAGES, "invalid": "must be a text"},
    )


def kind(name: str) -> fields.String:
    """Return the field ``type`` of the action type ``name``."""
    return fields.String(
        required=True,
        validate=validate.OneOf([name], error="must be {choices}"),
        error_messages=_MESSAGES,
    )


def text(*, limit: int, required: bool = True) -> fields.String:
    """Return a field for a text of 1 to ``limit`` characters."""
    return fields.String(
        required=required,
        validate=validate.Length(min=1, max=limit, error=f"must have 1 to {limit} characters"),
        error_messages={**_MESSAGES, "invalid": "must be a text"},
    )


def choice(*choices: str) -> fields.String:
    """Return a required field for one of ``choices``."""
    return fields.String(
        required=True,
        validate=validate.OneOf(choices, error="must be one of: {choices}"),
        error_messages={**_MESSAGES, "invalid": "must be a text"},
    )


def integer(minimum: int, maximum: int, *, required: bool = False) -> fields.Raw:
    """Return a field for an integer within bounds; booleans and floats are none."""

    def is_within(value: object) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or not minimum <= value <= maximum:
            raise ValidationError(f"must be an integer from {minimum} to {maximum}")

    return fields.Raw(
        required=required,
        validate=is_within,
        metadata={"type": "integer", "minimum": minimum, "maximum": maximum},
        error_messages=_MESSAGES,
    )


def flag() -> fields.Raw:
    """Return a field for true or false."""
    return fields.Raw(validate=_is_flag, metadata={"type": "boolean"}, error_messages=_MESSAGES)


def nested(schema: type[Schema]) -> fields.Nested:
    """Return a required field for an object with keys of its own."""
    return fields.Nested(schema, required=True, error_messages=_MESSAGES)


def values() -> fields.List[Any]:
    """Return a field for a list of anything."""
    return fields.List(
        fields.Raw(allow_none=True), error_messages={**_MESSAGES, "invalid": "must be a list"}
    )


class PartSchema(Schema):
    """An object within an action. Unknown keys are refused."""

    error_messages = _SCHEMA_MESSAGES

    def __init__(self, **options: _Options) -> None:
        super().__init__(**options)
        _name_keys(self)


def identifier() -> fields.String:
    """Return a required field for a UUID in its usual spelling."""
    return fields.String(
        required=True,
        validate=_is_uuid,
        metadata={"format": "uuid"},
        error_messages={**_MESSAGES, "invalid": "must be a UUID"},
    )


def mapping(*, required: bool = False, empty: str | None = None) -> fields.Dict:
    """Return a field for an object whose values may be anything; ``empty`` refuses one without."""
    return fields.Dict(
        keys=fields.String(),
        required=required,
        validate=None if empty is None else validate.Length(min=1, error=empty),
        error_messages={**_MESSAGES, "invalid": "must be an object"},
    )


def anything() -> fields.Raw:
    """Return a field for any JSON value, null too."""
    return fields.Raw(allow_none=True)


class _Url(fields.String):
    """A URL; one with tokens is read when it is rendered."""

    def _validate(self, value: str) -> None:
        super()._validate(value)
        if not has_tokens(value, on_events=_counts_events(self)):
            _check_url(value)


def url() -> fields.String:
    """Return a required field for a URL."""
    return _Url(required=True, error_messages={**_MESSAGES, "invalid": "must be a text"})


_SECRET_HEADER: Json = {
    "type": "object",
    "description": "A secret of the tenant by its name, read at the call; `prefix` goes before it.",
    "properties": {
        "secret": {"type": "string", "pattern": f"^{NAME_PATTERN}$"},
        "prefix": {"type": "string", "maxLength": MAX_PREFIX, "examples": ["Bearer "]},
    },
    "required": ["secret"],
    "additionalProperties": False,
}


class _Headers(fields.Dict):
    """Names and texts, or secrets; a text with tokens is read when it is rendered."""

    def _validate(self, value: dict[str, object]) -> None:
        super()._validate(value)
        _check_headers(value, on_events=_counts_events(self))


def headers() -> fields.Dict:
    """Return a field for names, each with a text or a secret."""
    return _Headers(
        keys=fields.String(),
        metadata={"additionalProperties": {"oneOf": [{"type": "string"}, _SECRET_HEADER]}},
        error_messages={**_MESSAGES, "invalid": "must be an object"},
    )


def either(*forms: Json, validate: Callable[[object], None]) -> fields.Raw:
    """Return a field that has one of several forms, each a JSON schema."""
    return fields.Raw(
        validate=validate,
        metadata={"oneOf": list(forms)},
        error_messages=_MESSAGES,
    )


def has_tokens(value: Json, *, on_events: bool) -> bool:
    """Return whether a setting is only known when it is rendered."""
    return any(True for _ in tokens_in(value, on_events=on_events))


def _counts_events(field: fields.Field[Any]) -> bool:
    return isinstance(field.root, ActionSchema) and field.root.on_events


def schema_faults(
    action_type: str, schema: type[ActionSchema], raw: Mapping[str, Any], *, on_events: bool
) -> list[Fault]:
    """Return how ``raw`` does not fit the schema, with pointers relative to the action.

    A wrong value of a common choice is not among them: ``action_faults`` says it.
    """
    made = _made(schema, on_events)
    known = made.fields
    told = [(name,) for name in ("on_error", "on_unknown") if name in known]
    looked_at = {*known, *unknown_keys(raw, known)}
    raw = {key: value for key, value in raw.items() if key in looked_at}
    return [
        Fault(
            code="action_invalid",
            pointer="".join(child("", key) for key in path),
            message=f"{action_type} {cut('.'.join(path))} {reason}",
        )
        for path, reason in _leaves(made.validate(raw), ())
        if path not in told
    ]


@cache
def _made(schema: type[ActionSchema], on_events: bool) -> ActionSchema:
    """Return the schema, made once: that copies all its fields, and a body has 40,000 actions."""
    return schema(on_events=on_events)


def _leaves(errors: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    match errors:
        case dict():
            for key, inner in errors.items():
                # So marshmallow says that what should be an object is none; a key may be called so.
                is_whole = (key, inner) == ("_schema", [_SCHEMA_MESSAGES["type"]])
                yield from _leaves(inner, path if is_whole else (*path, str(key)))
        case [dict() as inner, *_]:
            yield from _leaves(inner, path)
        case [reason, *_]:
            yield path, str(reason)


def _is_flag(value: object) -> None:
    if not isinstance(value, bool):
        raise ValidationError("must be true or false")


def _is_uuid(value: str) -> None:
    if not _UUID.fullmatch(value):
        raise ValidationError("must be a UUID")


def _check_url(value: str) -> None:
    try:
        parse_url(value)
    except ValueError as error:
        raise ValidationError(f"cannot be called: {error}") from error


def _check_headers(value: dict[str, object], *, on_events: bool) -> None:
    texts = {name: _header_text(each) for name, each in value.items()}
    errors = {name: [_header_fault(value[name])] for name, text in texts.items() if text is None}
    known = {
        name: "" if has_tokens(text, on_events=on_events) else text
        for name, text in texts.items()
        if text is not None
    }
    for name, reason in header_faults(known):
        if not name:
            raise ValidationError(reason)
        errors[name] = [reason]
    if errors:
        raise ValidationError(errors)


def _header_text(value: object) -> str | None:
    """Return what is known of a header before the call, None for what is no header."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict) or not {*value} <= {"secret", "prefix"}:
        return None
    prefix = value.get("prefix", "")
    is_fit = isinstance(prefix, str) and len(prefix) <= MAX_PREFIX
    return prefix if is_fit and is_secret_name(value.get("secret")) else None


def _header_fault(value: object) -> str:
    if not isinstance(value, dict):
        return "must be a text"
    return 'must be a text, or name a secret: {"secret": name, "prefix": text}'
