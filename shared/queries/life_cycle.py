"""One life cycle for two tables: its statements are written once and made for both at import."""

from collections.abc import Mapping

from shared.domain.work import WorkKind

HELD: Mapping[WorkKind, str] = {"trigger_run": "running", "scheduled_action": "processing"}
"""By kind the status of what a worker holds."""


def made_for(kind: WorkKind, template: str) -> str:
    """Return the statement of a template.

    It names ``{table}``, ``{held}`` and, of a step of a workflow alone, ``{execution_id}``.
    """
    execution_id = "work.execution_id" if kind == "scheduled_action" else "NULL::uuid"
    return template.format(table=kind, held=HELD[kind], execution_id=execution_id)


def for_both(template: str) -> Mapping[WorkKind, str]:
    """Return by kind the statement of a template."""
    return {kind: made_for(kind, template) for kind in HELD}
