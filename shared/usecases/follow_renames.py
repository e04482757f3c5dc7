"""Renamed columns of a table, followed by whatever else in the tenant names them.

Whoever stores what names another table holds the tenant's row against this, shared or alone: it is
either found here, or was checked against the new names.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from psycopg import Connection

from shared.domain.column_renames import (
    rename_in_actions,
    rename_in_nodes,
    rename_written_columns,
)
from shared.domain.records import CustomTable
from shared.queries.custom_tables import store_triggers
from shared.queries.table_references import lock_tables_naming, rules_naming, workflows_naming
from shared.queries.trigger_rules import get_rule, update_rule
from shared.queries.workflows import get_workflow, update_workflow


def follow_renames(
    conn: Connection, table: CustomTable, renames: Mapping[str, str], *, now: datetime
) -> None:
    """Rewrite the triggers of other tables, the rules and the workflows that name the columns.

    ``renames`` is old name to new name. A workflow gets its next version: one that was saved never
    changes, and executions finish on theirs. The caller has locked the tenant.
    """
    _in_other_tables(conn, table, renames, now=now)
    _in_rules(conn, table, renames, now=now)
    _in_workflows(conn, table, renames, now=now)


def _in_other_tables(
    conn: Connection, table: CustomTable, renames: Mapping[str, str], *, now: datetime
) -> None:
    for other in lock_tables_naming(conn, table.tenant_id, table.id):
        if not isinstance(other.triggers, list):
            continue
        renamed: list[Any] = rename_written_columns(other.triggers, renames, table_id=table.id)
        if renamed != other.triggers:
            store_triggers(conn, other.id, triggers=renamed, now=now)


def _in_rules(
    conn: Connection, table: CustomTable, renames: Mapping[str, str], *, now: datetime
) -> None:
    for rule_id in rules_naming(conn, table.tenant_id, table.id):
        rule = get_rule(conn, table.tenant_id, rule_id)
        actions: list[Any] = rename_in_actions(rule.actions, renames, table_id=table.id)
        if actions != rule.actions:
            update_rule(conn, replace(rule, actions=actions), now=now)


def _in_workflows(
    conn: Connection, table: CustomTable, renames: Mapping[str, str], *, now: datetime
) -> None:
    for workflow_id in workflows_naming(conn, table.tenant_id, table.id):
        workflow = get_workflow(conn, table.tenant_id, workflow_id)
        nodes: list[Any] = rename_in_nodes(workflow.nodes, renames, table_id=table.id)
        if nodes != workflow.nodes:
            update_workflow(conn, replace(workflow, nodes=nodes), now=now)
