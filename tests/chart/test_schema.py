"""The schema describes every value of the chart, the page lists them, and nothing else is taken."""

import json
import re
from copy import deepcopy
from dataclasses import fields
from functools import reduce
from operator import getitem

import jsonschema
import yaml

from shared.messaging.topology import CONSUMED_QUEUES
from shared.settings import Settings
from tests.architecture.source import ROOT
from tests.chart.charts import CHART, VALUES
from tests.pages.values_schema import resolved

_SCHEMA = json.loads((CHART / "values.schema.json").read_text("utf-8"))
_SECRETS = {
    *("DATABASE_URL", "AMQP_URL", "REDIS_URL", "ADMIN_TOKEN", "ENCRYPTION_KEYS"),
    "OTEL_EXPORTER_OTLP_HEADERS",
}
_WORKERS = ("trigger-worker", "action-worker")
# What Kubernetes has, and maps of anybody's names.
_THEIRS = {
    *("podSecurityContext", "containerSecurityContext", "affinity", "nodeSelector"),
    *("annotations", "labels", "podAnnotations", "podLabels"),
}


def test_the_schema_knows_every_setting_that_is_no_secret():
    definitions = _SCHEMA["definitions"]
    scopes = [definitions[f"{scope}Settings"] for scope in ("common", "api", "own", "worker")]
    known = {name for scope in scopes for name in scope["properties"]}

    assert known == {field.name.upper() for field in fields(Settings)} - _SECRETS
    assert set(definitions["secretKeys"]["items"]["enum"]) == _SECRETS


def test_the_schema_is_closed():
    """A list of names, a map of labels and what Kubernetes itself checks may stay open."""
    open_ones = {
        path
        for path, node in _objects("", _SCHEMA)
        if node.get("additionalProperties") is not False
    }
    theirs = {"affinity", "tolerations", "peers", "texts", "labels", "global"}

    assert {path for path in open_ones if not theirs & set(path.split("/"))} == {
        f"/properties/{name}"
        for name in ("podSecurityContext", "containerSecurityContext",
                     "podSecurityContext/properties/seccompProfile",
                     "containerSecurityContext/properties/capabilities")
    }  # fmt: skip


def _objects(path, node):
    if isinstance(node, dict):
        if node.get("type") == "object":
            yield path, node
        for key, value in node.items():
            yield from _objects(f"{path}/{key}", value)


def test_every_value_of_the_chart_is_one_of_its_schema():
    jsonschema.Draft7Validator.check_schema(_SCHEMA)

    assert _faults(VALUES) == []


def _faults(values):
    return [fault.json_path for fault in jsonschema.Draft7Validator(_SCHEMA).iter_errors(values)]


def test_an_unknown_name_is_refused_at_every_depth():
    large = yaml.safe_load((CHART / "examples/large.yaml").read_text("utf-8"))
    values = {**VALUES, "ingress": {**VALUES["ingress"], **large["ingress"]}}
    spoilt = list(_spoilt(values))

    assert _faults(values) == []
    assert len(spoilt) > 50
    assert [path for path, values in spoilt if not _faults(values)] == []


def _spoilt(values, path=()):
    """Yield copies with a name too many, in one object of the chart's own each, and where."""
    node = reduce(getitem, path, values)
    if isinstance(node, dict):
        copy = deepcopy(values)
        reduce(getitem, path, copy)["unknown"] = "1"
        yield path, copy
    steps = node if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ()
    for step in steps:
        if step not in _THEIRS:
            yield from _spoilt(values, (*path, step))


def test_every_property_of_the_schema_is_described():
    described = dict(_properties("", _SCHEMA))

    assert len(described) > 150
    assert [path for path, text in described.items() if not text] == []
    assert [text for text in described.values() if re.search(r"^.{101}|\n|\.$", text)] == []


def _properties(path, node):
    for name, below in _SCHEMA["definitions"].items() if node is _SCHEMA else ():
        yield from _properties(f"{path}/definitions/{name}", below)
    for name, below in node.get("properties", {}).items():
        yield f"{path}/{name}", resolved(_SCHEMA, below).get("description")
        yield from _properties(f"{path}/{name}", below)
    if "items" in node:
        yield from _properties(f"{path}[]", node["items"])


def test_the_schema_tells_the_defaults_of_the_chart():
    """Where profiles share a property and differ, each default stands in values.yaml alone."""
    paths = [(), ("profiles", "main"), ("profiles", "cron-scheduler"), ("migrate",)]
    told = {
        (*path, name): below["default"]
        for path in paths
        for name, below in _node(path)["properties"].items()
        if "default" in below
    }

    assert told["profiles", "main", "preStopSeconds"] == 5
    assert told == {path: reduce(getitem, path, VALUES) for path in told}


def _node(path):
    return reduce(lambda node, name: resolved(_SCHEMA, node["properties"][name]), path, _SCHEMA)


def test_the_queues_are_those_of_the_product():
    workers = [VALUES["profiles"][name]["queueScaling"] for name in _WORKERS]

    scaled_by = [queue for worker in workers for queue in worker["messagesPerReplica"]]
    assert sorted(scaled_by) == sorted(CONSUMED_QUEUES)
    scaling = _SCHEMA["definitions"]["queueScaling"]["properties"]
    assert sorted(scaling["messagesPerReplica"]["properties"]) == sorted(CONSUMED_QUEUES)


def test_every_value_is_described_and_on_the_page():
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")
    paths = list(_paths(VALUES))
    told = [re.sub(r"^profiles\.[\w-]+\.", "profiles.*.", ".".join(path)) for path in paths]

    assert len(paths) > 100
    assert [path for path in paths if not resolved(_SCHEMA, _node(path))["description"]] == []
    assert [path for path in told if f"| `{path}" not in page] == []


def _paths(values, path=()):
    """Yield the path of every key whose name is the chart's, not that of a label."""
    for name, value in values.items():
        yield (*path, name)
        if isinstance(value, dict) and name != "labels":
            yield from _paths(value, (*path, name))


def test_the_page_names_every_group_of_values():
    page = (ROOT / "docs/kubernetes.md").read_text("utf-8")

    assert [name for name in VALUES if f"`{name}" not in page] == []
    assert [name for name in VALUES["profiles"] if f"`{name}`" not in page] == []
