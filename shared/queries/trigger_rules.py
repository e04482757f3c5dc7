"""Rules of a tenant: what its events lead to."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from shared.domain.columns import size_of
from shared.domain.event_rules import TriggerRule
from shared.errors import Conflict, NotFound, StaleVersion
from shared.queries.pages import Page, id_of, read_page

_SELECT = """
SELECT
    id, tenant_id, name, event, conditions, actions, enabled, revision, created_at, updated_at
FROM trigger_rule
WHERE tenant_id = %(tenant_id)s
"""
_BY_ID = _SELECT + "    AND id = %(rule_id)s\n"


def get_rule(conn: Connection, tenant_id: UUID, rule_id: int) -> TriggerRule:
    """Return a rule of the tenant; raises NotFound ``trigger_rule_not_found``."""
    found = _rules(conn, _BY_ID, {"tenant_id": tenant_id, "rule_id": rule_id})
    if not found:
        raise _not_found(rule_id)
    return found[0]


_LIST = (
    _SELECT
    + """
    AND id > %(after)s
ORDER BY id
LIMIT %(limit)s
"""
)


def list_rules(
    conn: Connection, tenant_id: UUID, *, after: int | None = None, limit: int
) -> Page[TriggerRule]:
    """Return a page of the tenant's rules by id, behind ``after``; short when they are large."""

    def read(after: int, limit: int) -> list[TriggerRule]:
        return _rules(conn, _LIST, {"tenant_id": tenant_id, "after": after, "limit": limit})

    return read_page(
        read,
        after=after or 0,
        limit=limit,
        size=lambda rule: size_of({"conditions": rule.conditions, "actions": rule.actions}),
        place=id_of,
    )


_OF_EVENT = _SELECT + "    AND event = %(event)s AND enabled\nORDER BY id\n"


def list_enabled_rules(conn: Connection, tenant_id: UUID, event: str) -> list[TriggerRule]:
    """Return the tenant's enabled rules for events of this name, the oldest first."""
    return _rules(conn, _OF_EVENT, {"tenant_id": tenant_id, "event": event})


_BY_NAMES = _SELECT + "    AND name = ANY(%(names)s)\nORDER BY id\n"


def list_rules_by_name(
    conn: Connection, tenant_id: UUID, names: Sequence[str]
) -> list[TriggerRule]:
    """Return those of the tenant's rules that have one of these names."""
    return _rules(conn, _BY_NAMES, {"tenant_id": tenant_id, "names": list(names)})


_COUNT_OF_EVENT = """
SELECT count(*)
FROM trigger_rule
WHERE tenant_id = %(tenant_id)s AND event = %(event)s
"""


def count_rules(conn: Connection, tenant_id: UUID, event: str) -> int:
    """Return how many rules the tenant has for events of this name, disabled ones too."""
    row = conn.execute(_COUNT_OF_EVENT, {"tenant_id": tenant_id, "event": event}).fetchone()
    assert row is not None
    count: int = row[0]
    return count


_INSERT = """
INSERT INTO trigger_rule (
    tenant_id, name, event, conditions, actions, enabled, created_at, updated_at
)
VALUES (
    %(tenant_id)s, %(name)s, %(event)s, %(conditions)s, %(actions)s, %(enabled)s, %(now)s, %(now)s
)
ON CONFLICT (tenant_id, name) DO NOTHING
RETURNING
    id, tenant_id, name, event, conditions, actions, enabled, revision, created_at, updated_at
"""


def insert_rule(
    conn: Connection,
    *,
    tenant_id: UUID,
    name: str,
    event: str,
    conditions: list[dict[str, Any]],
    actions: list[dict[str, Any]],
    enabled: bool,
    now: datetime,
) -> TriggerRule:
    """Insert a rule and return it; raises Conflict ``trigger_rule_exists`` for a name in use."""
    parameters = {
        "tenant_id": tenant_id,
        "name": name,
        "event": event,
        "conditions": Jsonb(conditions),
        "actions": Jsonb(actions),
        "enabled": enabled,
        "now": now,
    }
    found = _rules(conn, _INSERT, parameters)
    if not found:
        raise _exists()
    return found[0]


_UPDATE = """
UPDATE trigger_rule
SET name = %(name)s,
    event = %(event)s,
    conditions = %(conditions)s,
    actions = %(actions)s,
    enabled = %(enabled)s,
    revision = revision + 1,
    updated_at = %(now)s
WHERE tenant_id = %(tenant_id)s AND id = %(rule_id)s AND revision = %(revision)s
RETURNING
    id, tenant_id, name, event, conditions, actions, enabled, revision, created_at, updated_at
"""


def update_rule(conn: Connection, rule: TriggerRule, *, now: datetime) -> TriggerRule:
    """Store an edited rule and return it with its new revision.

    ``rule.revision`` is the one the edit is based on; raises StaleVersion when it is no longer the
    present one, Conflict ``trigger_rule_exists`` when another has the name.
    """
    parameters = {
        "tenant_id": rule.tenant_id,
        "rule_id": rule.id,
        "name": rule.name,
        "event": rule.event,
        "conditions": Jsonb(rule.conditions),
        "actions": Jsonb(rule.actions),
        "enabled": rule.enabled,
        "revision": rule.revision,
        "now": now,
    }
    try:
        with conn.transaction():
            found = _rules(conn, _UPDATE, parameters)
    except UniqueViolation as error:
        raise _exists() from error
    if not found:
        raise StaleVersion(f"rule {rule.id} was changed meanwhile")
    return found[0]


_DELETE = "DELETE FROM trigger_rule WHERE tenant_id = %(tenant_id)s AND id = %(rule_id)s"


def delete_rule(conn: Connection, tenant_id: UUID, rule_id: int) -> None:
    """Delete a rule, what it has scheduled stays; raises NotFound ``trigger_rule_not_found``."""
    if conn.execute(_DELETE, {"tenant_id": tenant_id, "rule_id": rule_id}).rowcount == 0:
        raise _not_found(rule_id)


def _exists() -> Conflict:
    return Conflict("a rule has this name already", code="trigger_rule_exists")


def _not_found(rule_id: int) -> NotFound:
    return NotFound(f"rule {rule_id} does not exist", code="trigger_rule_not_found")


def _rules(
    conn: Connection, statement: LiteralString, parameters: dict[str, Any]
) -> list[TriggerRule]:
    with conn.cursor(row_factory=class_row(TriggerRule)) as cursor:
        return cursor.execute(statement, parameters).fetchall()
