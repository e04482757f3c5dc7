"""What the operators' own kinds may hold: names and types of the fields that a chart may write.

Taken from the definitions of prometheus-operator 0.93.0 (monitoring.coreos.com/v1) and KEDA 2.20.2
(keda.sh/v1alpha1). What those have beside it is left out: who uses it adds it here.
"""

import jsonschema

_TEXT = {"type": "string"}
_NAME = {"type": "string", "minLength": 1}
_NUMBER = {"type": "integer"}
_SWITCH = {"type": "boolean"}
_TEXTS = {"type": "object", "additionalProperties": _TEXT}
_UNITS = ("y", "w", "d", "h", "m", "s", "ms")
_DURATION = {"type": "string", "pattern": f"^(0|{''.join(f'([0-9]+{u})?' for u in _UNITS)})$"}


def _list(item):
    return {"type": "array", "items": item}


def _object(*needed, **fields):
    return {
        "type": "object",
        "properties": fields,
        "required": list(needed),
        "additionalProperties": False,
    }


def _kind(api_version, kind, spec):
    metadata = _object("name", name=_NAME, namespace=_TEXT, labels=_TEXTS, annotations=_TEXTS)
    return f"{api_version}/{kind}", _object(
        *("apiVersion", "kind", "metadata", "spec"),
        apiVersion={"const": api_version},
        kind={"const": kind},
        metadata=metadata,
        spec=spec,
    )


_ENDPOINT = _object(
    port=_TEXT,
    path=_TEXT,
    scheme={"enum": ["http", "https", "HTTP", "HTTPS"]},
    interval=_DURATION,
    scrapeTimeout=_DURATION,
    honorLabels=_SWITCH,
    honorTimestamps=_SWITCH,
    params={"type": "object", "additionalProperties": _list(_TEXT)},
    targetPort={"type": ["integer", "string"]},
)
_SELECTOR = _object(
    matchLabels=_TEXTS,
    matchExpressions=_list(
        _object("key", "operator", key=_TEXT, operator=_TEXT, values=_list(_TEXT))
    ),
)
_MONITOR = _object(
    *("endpoints", "selector"),
    endpoints=_list(_ENDPOINT),
    selector=_SELECTOR,
    jobLabel=_TEXT,
    targetLabels=_list(_TEXT),
    podTargetLabels=_list(_TEXT),
    namespaceSelector=_object(any=_SWITCH, matchNames=_list(_TEXT)),
    sampleLimit=_NUMBER,
    labelLimit=_NUMBER,
    scrapeClass=_TEXT,
)
_RULE = _object(
    "expr",
    alert=_TEXT,
    record=_TEXT,
    expr={"type": ["integer", "string"]},
    **{"for": _DURATION},
    keep_firing_for=_DURATION,
    labels=_TEXTS,
    annotations=_TEXTS,
)
_RULES = _object(
    groups=_list(
        _object(
            "name",
            name=_NAME,
            interval=_DURATION,
            query_offset=_DURATION,
            limit=_NUMBER,
            labels=_TEXTS,
            rules=_list(_RULE),
        )
    )
)
_TRIGGER = _object(
    *("type", "metadata"),
    type=_NAME,
    name=_TEXT,
    metadata=_TEXTS,
    metricType=_TEXT,
    useCachedMetrics=_SWITCH,
    authenticationRef=_object(
        "name", name=_TEXT, kind={"enum": ["TriggerAuthentication", "ClusterTriggerAuthentication"]}
    ),
)
_SCALED = _object(
    *("scaleTargetRef", "triggers"),
    scaleTargetRef=_object(
        "name", name=_NAME, apiVersion=_TEXT, kind=_TEXT, envSourceContainerName=_TEXT
    ),
    triggers=_list(_TRIGGER),
    minReplicaCount=_NUMBER,
    maxReplicaCount=_NUMBER,
    idleReplicaCount=_NUMBER,
    pollingInterval=_NUMBER,
    cooldownPeriod=_NUMBER,
    initialCooldownPeriod=_NUMBER,
)
_REFERENCE = _object("key", "name", "parameter", key=_TEXT, name=_TEXT, parameter=_TEXT)
_AUTHENTICATION = _object(secretTargetRef=_list(_REFERENCE), configMapTargetRef=_list(_REFERENCE))

SCHEMAS = dict(
    [
        _kind("monitoring.coreos.com/v1", "ServiceMonitor", _MONITOR),
        _kind("monitoring.coreos.com/v1", "PrometheusRule", _RULES),
        _kind("keda.sh/v1alpha1", "ScaledObject", _SCALED),
        _kind("keda.sh/v1alpha1", "TriggerAuthentication", _AUTHENTICATION),
    ]
)


def check(document):
    """Raise ``jsonschema.ValidationError`` for what an operator would refuse or overlook."""
    schema = SCHEMAS[f"{document['apiVersion']}/{document['kind']}"]
    jsonschema.Draft202012Validator(schema).validate(document)
