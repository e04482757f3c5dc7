"""What the chart's schema says of settings, which the code declares, and of defaults."""

import json
import re
from typing import get_args

import yaml

from shared.settings import KEYS, Secret, Settings
from tests.architecture.source import ROOT

CHART = ROOT / "deploy/k8s"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text("utf-8"))

_WIDTH = 120
# Services have to agree on them, so no profile has its own.
_COMMON = ("PUBLIC_URL", "REDIS_PREFIX")
_SCOPES = {
    "commonSettings": (
        "environment of every process: what docs/settings.md has and is no secret",
        ("HEALTH_HOST", "HEALTH_PORT"),
    ),
    "apiSettings": ("its own environment; wins over `settings`", ("API_HOST", "API_PORT")),
    "ownSettings": ("its own environment; wins over `settings`", ()),
    "workerSettings": ("its own environment; wins over `settings`", ("WORKER_ROLES",)),
}
_OF_ONE = {name for scope in ("apiSettings", "workerSettings") for name in _SCOPES[scope][1]}
_LINK = re.compile(r"\[([\w.-]+)\]\(\1\)")
_BOUNDS = re.compile(r"(\d+) to (\d+)")
_OPTIONS = re.compile(r"`\w+`(, `\w+`)+")


def values_schema(text):
    """Return the text of values.schema.json with settings as the code has them, and defaults."""
    schema = _without_defaults(json.loads(text))
    definitions = schema["definitions"]
    secrets = [name for name in KEYS if _is_secret(name)]
    settings = [name for name in KEYS if name not in secrets]
    definitions["secretKeys"]["items"] = {"enum": secrets}
    kept = {name: definitions.pop(name) for name in list(definitions) if name.isupper()}
    for scope, (means, required) in _SCOPES.items():
        definitions[scope] = _scope(scope, means, required, settings)
    for name in settings:
        definitions[name] = _setting(name, kept.get(name, {"type": "string"}))
    _tell_defaults(schema)
    return _written(schema) + "\n"


def resolved(schema, node):
    """Return a node with what it refers to; what it says itself wins."""
    for part in node.get("allOf", ()):
        node = {**resolved(schema, part), **node}
    if "$ref" not in node:
        return node
    return {**resolved(schema, schema["definitions"][node["$ref"].rpartition("/")[2]]), **node}


def _without_defaults(node):
    if isinstance(node, dict):
        return {key: _without_defaults(below) for key, below in node.items() if key != "default"}
    return [_without_defaults(below) for below in node] if isinstance(node, list) else node


def _type(name):
    return get_args(Settings.__annotations__[name.lower()])[0]


def _is_secret(name):
    return Secret in (_type(name), *get_args(_type(name)))


def _scope(scope, means, required, settings):
    left_out = _OF_ONE - set(required) | set(() if scope == "commonSettings" else _COMMON)
    names = [name for name in settings if name not in left_out]
    return {
        "description": means,
        "type": "object",
        "additionalProperties": False,
        **({"required": list(required)} if required else {}),
        "patternProperties": {
            "^OTEL_": {"$ref": "#/definitions/openTelemetry"},
            "^OTEL_.*HEADERS$": False,
        },
        "properties": {name: {"$ref": f"#/definitions/{name}"} for name in names},
    }


def _setting(name, kept):
    key = KEYS[name]
    default = None if name in _OF_ONE else VALUES["settings"].get(name, key.told_default)
    # Editors show both, but no default.
    title = key.values if default in (None, "") else f"{key.values}; default {default}"
    node = {"title": title, "description": _LINK.sub(r"docs/\1", key.means)}
    if _type(name) is int:
        low, high = map(int, _BOUNDS.fullmatch(key.values).groups())
        text = f"^[{min(low, 1)}-9][0-9]{{0,{len(str(high)) - 1}}}$"
        node |= {"type": ["integer", "string"], "minimum": low, "maximum": high, "pattern": text}
    elif _OPTIONS.fullmatch(key.values):
        node["enum"] = re.findall(r"\w+", key.values)
    elif key.values == "`http(s)://…`":
        node |= {"type": "string", "pattern": "^(https?://.+)?$"}
    else:
        node |= {word: of for word, of in kept.items() if word not in node}
    return node if default is None else {**node, "default": default}


def _tell_defaults(schema):
    """Say the default of each value; where one node stands for several, if they all have it."""
    told = {}
    for node, value in _values(schema, schema, VALUES):
        told.setdefault(id(node), (node, []))[1].append(value)
    for node, values in told.values():
        if all(value == values[0] for value in values):
            node["default"] = values[0]


def _values(schema, node, values):
    for name, below in resolved(schema, node).get("properties", {}).items():
        if name not in values:
            continue
        if values[name] and "properties" in resolved(schema, below):
            yield from _values(schema, below, values[name])
        else:
            yield below, values[name]


def _written(node, *, indent=0, before=0, after=0):
    """Return JSON in the chart's form: what fits on a line stands on one."""
    line = json.dumps(node, ensure_ascii=False)
    if not isinstance(node, dict | list) or indent + before + len(line) + after <= _WIDTH:
        return line
    names = [f"{json.dumps(key)}: " for key in node] if isinstance(node, dict) else [""] * len(node)
    below = node.values() if isinstance(node, dict) else node
    parts = [
        " " * (indent + 2) + name + _written(one, indent=indent + 2, before=len(name), after=1)
        for name, one in zip(names, below, strict=True)
    ]
    return "\n".join([line[0], ",\n".join(parts), " " * indent + line[-1]])
