"""The API document as a judge of answers, and as a source of what may be asked."""

import copy
import json
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from services.api.openapi import build_document

_OBJECTS = ("application/json", "application/problem+json")
TOLD_HEADERS = ("ETag", "Retry-After", "Location", "WWW-Authenticate", "Allow")


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the document."""

    method: str
    path: str
    raw: dict[str, Any]

    @property
    def id(self):
        return self.raw["operationId"]

    @property
    def name(self):
        """Its id without the scope: the same for the three scopes of table routes."""
        return self.id.removeprefix("root.").removeprefix("channel.")

    @property
    def scope(self):
        return self.path.split("/")[1]

    @property
    def ids(self):
        """The names of the ids in its address, in order."""
        return [step[1:-1] for step in self.path.split("/") if step.startswith("{")]

    def parameters(self, place):
        return [one for one in self.raw.get("parameters", []) if one["in"] == place]

    @property
    def content(self):
        return self.raw.get("requestBody", {}).get("content", {})


class Document:
    """The document, read strictly: what an answer has and the document does not is a fault."""

    def __init__(self):
        self.raw = _closed(build_document())
        resource = Resource.from_contents(self.raw, default_specification=DRAFT202012)
        self._registry = Registry().with_resource("urn:document", resource)
        self._validator = cache(self._make_validator)

    @cached_property
    def operations(self):
        return [
            Operation(method=method.upper(), path=path, raw=raw)
            for path, item in self.raw["paths"].items()
            for method, raw in item.items()
            if path not in ("/docs", "/openapi.json")
        ]

    def child_of(self, path):
        """Return the name of the id that is appended to an address, None when none is."""
        for operation in self.operations:
            rest = operation.path.removeprefix(path + "/")
            if rest != operation.path and rest.startswith("{"):
                return rest[1:].partition("}")[0]
        return None

    def resolved(self, schema):
        """Return a schema, followed to where its reference leads."""
        while "$ref" in schema:
            schema = self._at(schema["$ref"])
        return schema

    def _at(self, reference):
        found = self.raw
        for step in reference.removeprefix("#/").split("/"):
            found = found[step.replace("~1", "/").replace("~0", "~")]
        return found

    def faults(self, operation, answer):
        """Return what the document does not say of an answer, None when it says it all."""
        status = str(answer.status_code)
        if answer.status_code >= 500 and answer.status_code != 503:
            return f"a {status}"
        documented = operation.raw["responses"].get(status)
        if documented is None:
            return f"{status} is not documented"
        response = self.resolved(documented)
        headers = {*response.get("headers", {})}
        told = {name for name in TOLD_HEADERS if name in answer.headers}
        if told != headers:
            return f"{status} has the headers {told}, {headers} are documented"
        return self._content_fault(operation, status, response, answer)

    def _content_fault(self, operation, status, response, answer):
        content = response.get("content")
        if content is None:
            return None if not answer.data else f"{status} has a body"
        if answer.mimetype not in content:
            return f"{status} is {answer.mimetype}, {[*content]} is documented"
        if answer.mimetype not in _OBJECTS:
            return None
        pointer = f"/paths/{_escaped(operation.path)}/{operation.method.lower()}/responses/{status}"
        if "$ref" in operation.raw["responses"][status]:
            pointer = operation.raw["responses"][status]["$ref"].removeprefix("#")
        validator = self._validator(f"{pointer}/content/{_escaped(answer.mimetype)}/schema")
        fault = best_match(validator.iter_errors(json.loads(answer.data)))
        return fault and f"{status}: {fault.json_path}: {fault.message}"

    def _make_validator(self, pointer):
        return Draft202012Validator({"$ref": f"urn:document#{pointer}"}, registry=self._registry)


def _escaped(step):
    return step.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D")


def _closed(document):
    """Return the document with every object closed that lists its members."""
    document = copy.deepcopy(document)

    def close(node):
        if isinstance(node, dict):
            if isinstance(node.get("properties"), dict) and node.get("type") == "object":
                node.setdefault("additionalProperties", False)
            for below in node.values():
                close(below)
        elif isinstance(node, list):
            for below in node:
                close(below)

    close(document["components"]["schemas"])
    return document
