"""How the API document describes triggers and previews; their rules are the domain's alone.

The unions are written by hand: each arm declares the value of its discriminator as an enum of one,
without which no documented body would be valid.
"""

from typing import Any

from shared.domain.action_lists import MAX_ACTIONS
from shared.domain.conditions import MAX_PREDICATES, OPS
from shared.domain.delays import MAX_LINK, MODES, SECONDS
from shared.domain.scheduled_actions import MAX_DELAY_SECONDS
from shared.domain.triggers import MAX_NAME

Json = dict[str, Any]

_UUID: Json = {"type": "string", "format": "uuid"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_SECOND: Json = {
    "type": "string",
    "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$",
    "description": "UTC, without a zone, cut to the second",
}
_SECOND_OR_NULL: Json = {"oneOf": [_SECOND, {"type": "null"}]}
_TRIGGER_ID: Json = {"type": "string", "pattern": "^trg_[0-9a-f]{12}$"}
_TIMEZONE: Json = {"type": "string", "description": "IANA name, UTC when absent"}


def _object(properties: Json, *, required: list[str]) -> Json:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required,
        "properties": properties,
    }


def arm(name: str, properties: Json, *, optional: tuple[str, ...] = (), tag: str = "type") -> Json:
    """Return the schema of one arm of a union: ``name`` is the value of its ``tag``."""
    tagged = {tag: {"type": "string", "enum": [name]}, **properties}
    return _object(tagged, required=[key for key in tagged if key not in optional])


def union(tag: str, arms: dict[str, str]) -> Json:
    """Return the schema of one of ``arms`` (component by value of ``tag``)."""
    references = {name: f"#/components/schemas/{schema}" for name, schema in arms.items()}
    return {
        "oneOf": [{"$ref": reference} for reference in dict.fromkeys(references.values())],
        "discriminator": {"propertyName": tag, "mapping": references},
    }


_SCHEDULES: dict[str, tuple[str, Json]] = {
    "date_column_reached": (
        "DateColumnReached",
        arm(
            "date_column_reached",
            {
                "column": {"type": "string"},
                "offset_minutes": {"type": "integer", "minimum": -43200, "maximum": 43200},
            },
            optional=("offset_minutes",),
        ),
    ),
    "interval": (
        "Interval",
        arm(
            "interval",
            {"every_seconds": {"type": "integer", "minimum": 60, "maximum": 2_592_000}},
        ),
    ),
    "daily": (
        "Daily",
        arm(
            "daily",
            {
                "at": {"type": "string", "pattern": "^(?:[01][0-9]|2[0-3]):[0-5][0-9]$"},
                "timezone": _TIMEZONE,
            },
            optional=("timezone",),
        ),
    ),
    "cron": (
        "Cron",
        arm(
            "cron",
            {
                "expression": {"type": "string", "examples": ["*/15 8-18 * * 1-5"]},
                "timezone": _TIMEZONE,
            },
            optional=("timezone",),
        ),
    ),
}

_PREDICATE = _object(
    {"column": {"type": "string"}, "op": {"type": "string", "enum": list(OPS)}, "value": {}},
    required=["column", "op"],
)


_SECONDS: Json = {"type": "integer", "minimum": 1, "maximum": MAX_DELAY_SECONDS}


def _of_mode(mode: str, *required: str) -> Json:
    return {"required": list(required), "properties": {"mode": {"enum": [mode]}}}


_DELAY = {
    **_object(
        {
            "mode": {"type": "string", "enum": list(MODES), "default": "normal"},
            **dict.fromkeys(SECONDS, _SECONDS),
            "trackingLink": {
                "type": "string",
                "minLength": 1,
                "maxLength": MAX_LINK,
                "description": (
                    "the token or the address of the link that is watched; may be a template."
                    " Required in mode waitForTracking but in a workflow, where it is by default"
                    " that of the wait_for_tracking node nearest before the action"
                ),
            },
            "reEvaluateConditions": {"type": "boolean", "default": False},
            "on_expire": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ACTIONS,
                "items": {"$ref": "#/components/schemas/Action"},
                "description": "run when nobody clicked; these may be delayed, but not wait",
            },
        },
        required=[],
    ),
    "anyOf": [
        _of_mode("normal", "seconds"),
        _of_mode("waitForTracking", "mode", "expiresSeconds"),
        _of_mode("waitForTracking", "mode", "delaySeconds"),
    ],
    "description": "expiresSeconds is preferred to delaySeconds; 366 days are the longest",
}


def _trigger(*, stored: bool) -> Json:
    return _object(
        {
            "id": _TRIGGER_ID,
            "name": {"type": "string", "maxLength": MAX_NAME},
            "enabled": {"type": "boolean", "default": True},
            "on": {
                "type": "string",
                "enum": ["schedule", "record_created", "record_updated", "record_deleted"],
            },
            "schedule": {"$ref": "#/components/schemas/Schedule"},
            "when": {
                "type": "array",
                "maxItems": MAX_PREDICATES,
                "items": {"$ref": "#/components/schemas/Predicate"},
            },
            "actions": {
                "type": "array",
                "minItems": 1,
                "maxItems": MAX_ACTIONS,
                "items": {"$ref": "#/components/schemas/Action"},
            },
        },
        required=["id", "on", "actions"] if stored else ["on", "actions"],
    )


def _preview_arm(name: str, properties: Json) -> Json:
    status = "invalid" if name == "invalid" else "valid"
    common: Json = {
        "trigger_id": {"type": "string"},
        "config_status": {"type": "string", "enum": [status]},
        "warnings": {"type": "array", "items": {"type": "string"}},
    }
    if name == "invalid":
        common["trigger_id"] = {"type": ["string", "null"]}
    return arm(name, {**common, **properties}, tag="kind")


_DATE_COUNTS = (
    "records_scanned",
    "already_fired",
    "missing_schedule_value",
    "invalid_schedule_value",
    "scheduled_for_future",
    "when_filter_mismatch",
    "due_now",
    "unscanned",
)
_CLOCK: Json = {
    "last_consumed_window_at": _SECOND_OR_NULL,
    "due_at": _SECOND_OR_NULL,
    "due_now": {"type": "boolean"},
    "active_run": {"type": "boolean"},
}
_PREVIEW_ARMS: dict[str, tuple[str, Json]] = {
    "date_column_reached": (
        "DatePreview",
        _preview_arm(
            "date_column_reached",
            {**dict.fromkeys(_DATE_COUNTS, _COUNT), "truncated": {"type": "boolean"}},
        ),
    ),
    "interval": ("IntervalPreview", _preview_arm("interval", _CLOCK)),
    "daily": ("DailyPreview", _preview_arm("daily", _CLOCK)),
    "cron": ("CronPreview", _preview_arm("cron", _CLOCK)),
    "invalid": (
        "InvalidPreview",
        _preview_arm(
            "invalid",
            {
                "stored_schedule_type": {"type": ["string", "null"]},
                "error_codes": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            },
        ),
    ),
}

_NOTES = ("offset_changes", "skipped_wall_time", "repeated_wall_time", "window_skipped")
LOCAL_WINDOW: Json = _object(
    {
        "at": _SECOND,
        "local": {**_SECOND, "description": "wall time in the zone of the schedule"},
        "offset": {"type": "string", "examples": ["+08:00"]},
        "notes": {"type": "array", "items": {"type": "string", "enum": list(_NOTES)}},
    },
    required=["at", "local", "offset", "notes"],
)
_AHEAD: Json = {
    "fires_within_24_hours": {
        "oneOf": [_COUNT, {"type": "null"}],
        "description": "behind what fires at once; null when not all rows could be looked at",
    }
}
_DATE_AHEAD: Json = {"oldest_due_at": _SECOND_OR_NULL, **_AHEAD}
_CLOCK_AHEAD: Json = {
    **_AHEAD,
    "upcoming": {
        "type": "array",
        "maxItems": 10,
        "items": {"$ref": "#/components/schemas/LocalWindow"},
    },
}


def _simulated(kind: str) -> tuple[str, Json]:
    """Return the name and the schema of the arm of a simulation: that of the preview, and more."""
    name, previewed = _PREVIEW_ARMS[kind]
    more: Json = {"invalid": {}, "date_column_reached": _DATE_AHEAD}.get(kind, _CLOCK_AHEAD)
    nullable = {"trigger_id": {"type": ["string", "null"], "description": "null: not saved yet"}}
    properties = {**previewed["properties"], **nullable, **more}
    return name.replace("Preview", "Simulation"), _object(properties, required=list(properties))


_SIMULATION_ARMS = {kind: _simulated(kind) for kind in _PREVIEW_ARMS}

TRIGGER_COMPONENTS: dict[str, Json] = {
    **dict(_SCHEDULES.values()),
    "Schedule": union("type", {kind: name for kind, (name, _) in _SCHEDULES.items()}),
    "Predicate": _PREDICATE,
    "Delay": _DELAY,
    "NewTrigger": _trigger(stored=False),
    "Trigger": _trigger(stored=True),
    **dict(_PREVIEW_ARMS.values()),
    "PreviewArm": union("kind", {kind: name for kind, (name, _) in _PREVIEW_ARMS.items()}),
    "LocalWindow": LOCAL_WINDOW,
    **dict(_SIMULATION_ARMS.values()),
    "SimulationArm": union("kind", {kind: name for kind, (name, _) in _SIMULATION_ARMS.items()}),
}
