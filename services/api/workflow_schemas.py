"""How the API document describes the nodes of workflows; their rules are the domain's alone."""

from services.api.trigger_schemas import Json, arm, union
from shared.domain.conditions import MAX_PREDICATES
from shared.domain.scheduled_actions import MAX_DELAY_SECONDS
from shared.domain.workflow_faults import MAX_TARGET_URL
from shared.domain.workflows import MAX_NODES

_SECONDS: Json = {"type": "integer", "minimum": 1, "maximum": MAX_DELAY_SECONDS}
_NODES: Json = {
    "type": "array",
    "maxItems": MAX_NODES,
    "items": {"$ref": "#/components/schemas/Node"},
}

_ARMS: dict[str, tuple[str, Json]] = {
    "action": (
        "ActionNode",
        arm("action", {"action": {"$ref": "#/components/schemas/Action"}}),
    ),
    "delay": ("DelayNode", arm("delay", {"seconds": _SECONDS})),
    "wait_for_tracking": (
        "WaitNode",
        arm(
            "wait_for_tracking",
            {
                "seconds": _SECONDS,
                "link": {"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]{0,63}$"},
                "target_url": {"type": "string", "minLength": 1, "maxLength": MAX_TARGET_URL},
                "clicked": _NODES,
                "not_clicked": _NODES,
            },
            optional=("clicked", "not_clicked"),
        ),
    ),
    "branch": (
        "BranchNode",
        arm(
            "branch",
            {
                "when": {
                    "type": "array",
                    "maxItems": MAX_PREDICATES,
                    "items": {"$ref": "#/components/schemas/Predicate"},
                },
                "then": _NODES,
                "else": _NODES,
            },
            optional=("then", "else"),
        ),
    ),
    "stop": ("StopNode", arm("stop", {})),
}

WORKFLOW_COMPONENTS: dict[str, Json] = {
    **dict(_ARMS.values()),
    "Node": union("type", {kind: name for kind, (name, _) in _ARMS.items()}),
}
