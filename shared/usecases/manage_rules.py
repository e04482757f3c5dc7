"""Rules of a tenant: make, replace. A stored rule is valid, and so are its actions."""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import Connection

from shared.actions.registry import check_actions
from shared.domain.action_lists import action_list_faults
from shared.domain.event_rules import MAX_ACTIONS_TEXT, TriggerRule, read_conditions
from shared.domain.faults import MAX_TOLD, in_document_order
from shared.domain.strict_json import Json
from shared.errors import Conflict, Fault, InvalidInput, StaleVersion
from shared.queries import trigger_rules
from shared.queries.tenants import lock_tenant
from shared.usecases.align_states import is_same_json
from shared.usecases.link_checks import unknown_links
from shared.usecases.lookups import TenantLookup
from shared.usecases.tenant_limits import RULES, check_room

MAX_RULES_OF_EVENT = 50
"""Rules for events of one name: one event schedules all actions of all of them at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleDraft:
    """A rule as an author writes it; conditions and actions may still be anything."""

    name: str
    event: str
    conditions: Json
    actions: Json
    enabled: bool

    def parts(self) -> dict[str, Any]:
        """Return its parts by the names that they have in a rule."""
        return {
            "name": self.name,
            "event": self.event,
            "conditions": self.conditions,
            "actions": self.actions,
            "enabled": self.enabled,
        }


def make_rule(conn: Connection, *, tenant_id: UUID, draft: RuleDraft, now: datetime) -> TriggerRule:
    """Make a rule and return it.

    Raises InvalidInput with every fault, Conflict ``trigger_rule_exists`` and
    ``trigger_rules_too_many``, NotFound ``tenant_not_found``.
    """
    with conn.transaction():
        check_room(conn, tenant_id, RULES, now=now)
        _check(conn, tenant_id, draft)
        _check_room(conn, tenant_id, draft.event)
        return trigger_rules.insert_rule(conn, tenant_id=tenant_id, **draft.parts(), now=now)


def replace_rule(
    conn: Connection,
    *,
    tenant_id: UUID,
    rule_id: int,
    draft: RuleDraft,
    now: datetime,
    expected_revision: int | None,
) -> TriggerRule:
    """Replace a rule as a whole and return it; what it has scheduled stays as it is.

    Saving what is stored changes nothing, the revision neither. Raises NotFound
    ``trigger_rule_not_found``, StaleVersion, and as making one does.
    """
    with conn.transaction():
        lock_tenant(conn, tenant_id)
        rule = trigger_rules.get_rule(conn, tenant_id, rule_id)
        if expected_revision not in (None, rule.revision):
            raise StaleVersion(f"rule {rule_id} has revision {rule.revision}")
        _check(conn, tenant_id, draft)
        if draft.event != rule.event:
            _check_room(conn, tenant_id, draft.event)
        changed = replace(rule, **draft.parts())
        return (
            rule if _is_same(changed, rule) else trigger_rules.update_rule(conn, changed, now=now)
        )


def _check(conn: Connection, tenant_id: UUID, draft: RuleDraft) -> None:
    _, faults = read_conditions(draft.conditions)
    faults += action_list_faults(
        draft.actions, "/actions", name="actions", code="trigger_rule_invalid"
    )
    faults += _size_faults(draft.actions)
    lookup = TenantLookup(conn=conn, tenant_id=tenant_id)
    faults += check_actions(draft.actions, lookup=lookup, place="rule")
    faults = faults or list(unknown_links(conn, tenant_id, _pointed(draft.actions)))
    if faults:
        document = {"conditions": draft.conditions, "actions": draft.actions}
        raise InvalidInput.of(in_document_order(document, faults)[:MAX_TOLD])


def _size_faults(actions: Json) -> list[Fault]:
    if len(json.dumps(actions, ensure_ascii=False)) <= MAX_ACTIONS_TEXT:
        return []
    message = f"actions have at most {MAX_ACTIONS_TEXT} characters together"
    return [Fault(code="trigger_rule_invalid", pointer="/actions", message=message)]


def _pointed(actions: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    return [(f"/actions/{position}", action) for position, action in enumerate(actions)]


def _check_room(conn: Connection, tenant_id: UUID, event: str) -> None:
    if trigger_rules.count_rules(conn, tenant_id, event) >= MAX_RULES_OF_EVENT:
        message = f"there are {MAX_RULES_OF_EVENT} rules for this event, which is the limit"
        raise Conflict(message, code="trigger_rules_too_many")


def _is_same(changed: TriggerRule, rule: TriggerRule) -> bool:
    return is_same_json(_told(changed), _told(rule))


def _told(rule: TriggerRule) -> Json:
    return [rule.name, rule.event, rule.conditions, rule.actions, rule.enabled]
