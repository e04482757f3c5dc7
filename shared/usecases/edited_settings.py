"""New settings for a scheduled action, checked as where the action was authored."""

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.actions.action import CheckContext
from shared.actions.registry import ACTIONS, check_action
from shared.domain.action_lists import action_faults
from shared.domain.columns import column_from_json
from shared.domain.delays import without_delay
from shared.domain.faults import child, under
from shared.domain.scheduled_actions import ScheduledAction
from shared.domain.workflows import wait_nodes
from shared.errors import Fault, NotFound
from shared.queries.action_lists import find_frozen
from shared.queries.workflows import get_workflow, read_nodes
from shared.usecases.lookups import TenantLookup

_POINTER = "/action_config"


def settings_faults(
    conn: Connection, action: ScheduledAction, config: Mapping[str, Any] | None
) -> list[Fault]:
    """Return what is wrong with new settings of an action, none for None; pointers are a body's."""
    if config is None:
        return []
    if action.action_type not in ACTIONS:
        message = "this step of a workflow only waits: it has no action to change"
        return [Fault(code="step_has_no_action", pointer=_POINTER, message=message)]
    faults = list(action_faults(config, _POINTER, code="action_invalid"))
    checked = check_action(without_delay(config), _context(conn, action))
    return [*faults, *_delay_faults(config), *under(_POINTER, checked)]


def _delay_faults(config: Mapping[str, Any]) -> Iterator[Fault]:
    if "delay" in config:
        message = "the action is delayed already: change execute_at"
        yield Fault(code="delay_invalid", pointer=child(_POINTER, "delay"), message=message)


def _context(conn: Connection, action: ScheduledAction) -> CheckContext:
    lookup = TenantLookup(conn=conn, tenant_id=action.tenant_id)
    frozen = find_frozen(conn, action.tenant_id, action.id)
    if frozen is not None:
        trigger = frozen["trigger"]
        return CheckContext(
            place="trigger",
            lookup=lookup,
            on=trigger["on"],
            schedule_kind=trigger["schedule"]["type"] if trigger["on"] == "schedule" else None,
            columns=tuple(map(column_from_json, frozen["columns"])),
        )
    if action.workflow_id is None or action.workflow_version is None:
        return CheckContext(place="rule", lookup=lookup)
    nodes = read_nodes(conn, action.workflow_id, action.workflow_version)
    return CheckContext(
        place="workflow",
        lookup=lookup,
        links={node["link"] for _, node in wait_nodes(nodes)},
        workflow=_name(conn, action.tenant_id, action.workflow_id),
    )


def _name(conn: Connection, tenant_id: UUID, workflow_id: int) -> str | None:
    """Return the name of a workflow, None if it was deleted: then nothing can start it anyway."""
    try:
        return get_workflow(conn, tenant_id, workflow_id).name
    except NotFound:
        return None
