"""JSON schemas of a command's inputs: which are taken, and whether inputs fit.

A subset that cannot run away: no references, no patterns, bounded size, and nothing that costs more
than the size of the schema times the size of the inputs.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from shared.actions.schemas import has_tokens
from shared.domain.faults import child, cut
from shared.domain.strict_json import Json
from shared.errors import Fault

if TYPE_CHECKING:
    from jsonschema.exceptions import SchemaError, ValidationError

MAX_SCHEMA_BYTES = 64 * 1024
MAX_SCHEMA_DEPTH = 12
MAX_SUBSCHEMAS = 100
MAX_SCHEMA_VALUES = 1000
MAX_INPUT_VALUES = 500

_MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ONE = frozenset({"additionalProperties", "items", "not", "if", "then", "else"})
_PLAIN = frozenset(
    {
        "type",
        "enum",
        "const",
        "required",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "minProperties",
        "maxProperties",
        "format",
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "$comment",
    }
)
# Faults of these are about the names of the inputs, which are known before the values are.
_OF_NAMES = frozenset({"required", "additionalProperties", "minProperties", "maxProperties"})


def check_input_schema(raw: object) -> list[Fault]:
    """Return why ``raw`` is not taken as the schema of a command's inputs; pointers are into it.

    Draft 2020-12; it describes an object.
    """
    if not isinstance(raw, dict) or raw.get("type") != "object":
        return [_fault("", "the input schema must be an object with type 'object'")]
    if len(json.dumps(raw, ensure_ascii=False).encode()) > MAX_SCHEMA_BYTES:
        return [_fault("", f"the input schema has more than {MAX_SCHEMA_BYTES} bytes")]
    if _has_more_values(raw, MAX_SCHEMA_VALUES):
        return [_fault("", f"the input schema has more than {MAX_SCHEMA_VALUES} values")]
    parts = list(_subschemas(raw, "", MAX_SCHEMA_DEPTH))
    if len(parts) > MAX_SUBSCHEMAS:
        return [_fault("", f"the input schema has more than {MAX_SUBSCHEMAS} parts")]
    if any(depth == 0 for _, _, depth in parts):
        return [_fault("", f"the input schema has more than {MAX_SCHEMA_DEPTH} levels")]
    faults = [
        _fault(child(pointer, key), f"'{cut(key)}' is not supported in an input schema")
        for pointer, part, _ in parts
        for key in part
        if key not in _PLAIN | _MANY | _ONE | {"properties"}
    ]
    return faults or list(_meta_faults(raw))


def input_faults(
    inputs: Mapping[str, Json], schema: Mapping[str, Any], *, on_events: bool = False
) -> list[Fault]:
    """Return why authored inputs can never fit; what tokens stand for is not judged yet."""
    if _has_more_values(inputs, MAX_INPUT_VALUES):
        return [_input_fault("", f"there are more than {MAX_INPUT_VALUES} values")]
    return [
        _input_fault(_pointer(error), cut(error.message))
        for error in _errors(inputs, schema)
        if error.validator in _OF_NAMES or not has_tokens(error.instance, on_events=on_events)
    ]


def input_problem(inputs: Mapping[str, Json], schema: Mapping[str, Any]) -> str | None:
    """Return why inputs do not fit, or None."""
    if _has_more_values(inputs, MAX_INPUT_VALUES):
        return f"the inputs have more than {MAX_INPUT_VALUES} values"
    for error in _errors(inputs, schema):
        return f"input {_pointer(error) or '/'} does not fit: {error.message}"
    return None


def _subschemas(
    schema: object, pointer: str, depth: int
) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield every schema object with its pointer and the levels left; at 0 it goes no deeper."""
    if not isinstance(schema, dict):
        return
    yield pointer, schema, depth
    if depth > 0:
        for place, part in _members(schema):
            yield from _subschemas(part, pointer + place, depth - 1)


def _members(schema: dict[str, Any]) -> Iterator[tuple[str, object]]:
    for key, value in schema.items():
        at = child("", key)
        if key in _ONE:
            yield at, value
        elif key in _MANY and isinstance(value, list):
            yield from ((child(at, index), part) for index, part in enumerate(value))
        elif key == "properties" and isinstance(value, dict):
            yield from ((child(at, name), part) for name, part in value.items())


def _meta_faults(raw: Mapping[str, Any]) -> Iterator[Fault]:
    # Three MiB, which no process is to hold that has no commands.
    from jsonschema import Draft202012Validator, SchemaError

    try:
        Draft202012Validator.check_schema(raw)
    except SchemaError as error:
        yield _fault(_pointer(error), f"the input schema is not valid: {cut(error.message)}")


def _errors(instance: object, schema: Mapping[str, Any]) -> "list[ValidationError]":
    from jsonschema import Draft202012Validator
    from referencing import Registry

    # With a registry of its own: whatever a stored schema may say, nothing is fetched.
    validator = Draft202012Validator(schema, registry=Registry())
    return sorted(validator.iter_errors(instance), key=_pointer)


def _pointer(error: "ValidationError | SchemaError") -> str:
    return "".join(child("", part) for part in error.absolute_path)


def _has_more_values(value: Json, limit: int) -> bool:
    return any(True for _ in islice(_values(value), limit, None))


def _values(value: Json) -> Iterator[None]:
    yield None
    match value:
        case dict():
            for each in value.values():
                yield from _values(each)
        case list():
            for each in value:
                yield from _values(each)


def _input_fault(pointer: str, reason: str) -> Fault:
    message = f"invoke_command inputs: {reason}"
    return Fault(code="command_input_invalid", pointer=f"/inputs{pointer}", message=message)


def _fault(pointer: str, message: str) -> Fault:
    return Fault(code="input_schema_invalid", pointer=pointer, message=message)
