"""Who may do what, written from the contract and not from the routes: areas, and where they are.

A route that is not placed here is nobody's, and fails the test of the matrix.
"""

from dataclasses import dataclass

from tests.builders_rules import NOTIFY
from tests.integration.api.workspace import RULE, WORKFLOW

ROLES = ("moderator", "editor", "viewer", "service")


@dataclass(frozen=True, kw_only=True)
class Rights:
    """The roles that read an area, and those that change what is in it."""

    read: str
    write: str

    def of(self, method):
        return set((self.read if method == "GET" else self.write).split())


_MODERATORS = Rights(read="moderator", write="moderator")
_INTERNAL = Rights(read="moderator service", write="moderator service")

RIGHTS = {
    "tables": Rights(read="moderator editor viewer", write="moderator"),
    "records": Rights(read="moderator editor viewer service", write="moderator editor service"),
    "triggers": _MODERATORS,
    "trigger-runs": _MODERATORS,
    "staged-changes": _MODERATORS,
    "scp-rules": _MODERATORS,
    "bundle": _MODERATORS,
    "tokens": _MODERATORS,
    "signing-keys": _MODERATORS,
    "secrets": _MODERATORS,
    "trigger-rules": _MODERATORS,
    "workflows": _MODERATORS,
    "commands": _MODERATORS,
    "scheduled-actions": _MODERATORS,
    "events": _INTERNAL,
    "line-users": _INTERNAL,
    "tracking-links": _INTERNAL,
    "chatrooms": _INTERNAL,
    # The admin's alone, who is a moderator everywhere.
    "tenants": _MODERATORS,
    "run-due-triggers": _MODERATORS,
}

_TABLE = "/tables/<uuid:table_id>"
_RECORD = f"{_TABLE}/records/<id:record_id>"
_TRIGGERS = f"{_TABLE}/triggers"
_TRIGGER = f"{_TRIGGERS}/<trigger:trigger_id>"
_RUN = f"{_TABLE}/trigger-runs/<id:run_id>"
_CHANGE = f"{_TABLE}/staged-changes/<id:change_id>"
_WORKFLOW = "/workflows/<id:workflow_id>"
_ACTION = "/scheduled-actions/<id:action_id>"

AREAS = {
    "tables": ("/tables", _TABLE, f"{_TABLE}/restore"),
    "records": (f"{_TABLE}/records", f"{_TABLE}/records/bulk", _RECORD, f"{_RECORD}/restore"),
    "triggers": (
        _TRIGGERS,
        f"{_TRIGGERS}/schedule-preview",
        f"{_TRIGGERS}/slots-preview",
        f"{_TRIGGERS}/simulate",
        f"{_TRIGGER}/timeline",
        f"{_TRIGGER}/why",
    ),
    "trigger-runs": (
        f"{_TABLE}/trigger-runs",
        f"{_TABLE}/trigger-runs/retry",
        f"{_TABLE}/trigger-runs/cancel",
        _RUN,
        f"{_RUN}/retry",
        f"{_RUN}/cancel",
    ),
    "staged-changes": (
        f"{_TABLE}/staged-changes",
        f"{_TABLE}/staged-changes/approve",
        f"{_TABLE}/staged-changes/reject",
        _CHANGE,
        f"{_CHANGE}/approve",
        f"{_CHANGE}/reject",
    ),
    "scp-rules": (f"{_TABLE}/scp-rules",),
    "bundle": ("/bundle", "/bundle/plan", "/bundle/apply"),
    "tokens": ("/tokens", "/tokens/<uuid:token_id>"),
    "signing-keys": ("/signing-keys",),
    "secrets": ("/secrets", "/secrets/<secret:secret_name>"),
    "trigger-rules": ("/trigger-rules", "/trigger-rules/<id:rule_id>"),
    "workflows": (
        "/workflows",
        _WORKFLOW,
        f"{_WORKFLOW}/versions/<id:version>",
        f"{_WORKFLOW}/executions",
        f"{_WORKFLOW}/executions/<uuid:execution_id>",
    ),
    "commands": ("/commands", "/commands/<id:command_id>"),
    "scheduled-actions": (
        "/scheduled-actions",
        "/scheduled-actions/cancel",
        _ACTION,
        f"{_ACTION}/cancel",
        f"{_ACTION}/run-now",
        f"{_ACTION}/retry",
    ),
    "events": ("/events", "/events/<id:event_id>"),
    "line-users": ("/line-users", "/line-users/<id:line_user_id>"),
    "tracking-links": ("/tracking-links", "/tracking-links/<id:link_id>"),
    "chatrooms": ("/chatrooms/<uuid:chatroom_id>/messages",),
    "tenants": ("/tenants",),
    "run-due-triggers": ("/run-due-triggers",),
}
PLACES = {path: area for area, paths in AREAS.items() for path in paths}

BODIES = {
    "POST /tables": {"name": "new", "columns": []},
    f"PATCH {_TABLE}": {"name": "renamed"},
    f"POST {_TABLE}/records": {"data": {}},
    f"PATCH {_RECORD}": {"data": {}},
    f"PUT {_TRIGGERS}": {"triggers": []},
    f"POST {_TRIGGERS}/simulate": {"triggers": []},
    f"POST {_TABLE}/trigger-runs/retry": {},
    f"POST {_TABLE}/trigger-runs/cancel": {"dry_run": True},
    f"POST {_TABLE}/staged-changes/approve": {},
    f"POST {_TABLE}/staged-changes/reject": {},
    f"POST {_CHANGE}/approve": {},
    f"POST {_CHANGE}/reject": {},
    f"PUT {_TABLE}/scp-rules": {"rules": []},
    "POST /tenants": {"name": "{unique}"},
    "POST /tokens": {"name": "new", "role": "viewer"},
    "POST /commands": {
        "name": "{unique}",
        "url": "https://example.com",
        "input_schema": {"type": "object", "properties": {}},
    },
    "PATCH /commands/<id:command_id>": {"url": "https://example.com/new"},
    "PUT /secrets/<secret:secret_name>": {"value": "v"},
    "POST /line-users": {"external_id": "{unique}"},
    "PATCH /line-users/<id:line_user_id>": {"display_name": "new"},
    "POST /events": {"name": "ordered"},
    "POST /trigger-rules": {**RULE, "name": "{unique}"},
    "PUT /trigger-rules/<id:rule_id>": {**RULE, "name": "{unique}"},
    "POST /workflows": {**WORKFLOW, "name": "{unique}"},
    f"PUT {_WORKFLOW}": {**WORKFLOW, "name": "{unique}"},
    f"POST {_WORKFLOW}/executions": {},
    "POST /tracking-links": {"target_url": "https://example.com"},
    "POST /scheduled-actions/cancel": {"dry_run": True, "line_user_id": 1},
    f"PATCH {_ACTION}": {"action_config": NOTIFY},
    f"POST {_ACTION}/run-now": {},
}
"""A sound body of each route that takes one; ``{unique}`` is filled in."""

NEEDS_A_TENANT = {"POST /tables", "GET /bundle", "POST /bundle/plan", "POST /bundle/apply"}
"""Routes of the root scope that act in a tenant which the admin has to name."""

UPLOADS = {
    f"POST {_TABLE}/records/bulk": b"{}\n",
    "POST /bundle/plan": b"\n",
    "POST /bundle/apply": b"\n",
}
QUERIES = {
    "POST /bundle/apply": {"fingerprint": "0" * 64},
    f"GET {_TRIGGER}/why": {"record_id": "{record_id}"},
}
