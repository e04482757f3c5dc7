"""What holds of all bundles: an export is nothing to do, anywhere, and an apply does as planned."""

import json
from collections import Counter
from dataclasses import replace

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from shared.queries.custom_tables import list_tables
from shared.usecases.apply_bundle import apply_bundle
from shared.usecases.bundle_state import Reach
from shared.usecases.export_bundle import export_bundle
from shared.usecases.plan_bundle import plan_bundle
from tests.builders_db import NOW, insert_tenant
from tests.integration.usecases.random_bundles import EDITS, documents, edits

EXAMPLES = 60


def of_examples(count):
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


def text(lines):
    return "\n".join(json.dumps(line) for line in lines).encode()


def a_reach(conn):
    return Reach(tenant_id=insert_tenant(conn), channel_id=None)


def plan(conn, reach, document):
    return plan_bundle(conn, reach, document, now=NOW)


def apply(conn, reach, document):
    """Apply what a plan says and return both."""
    planned = plan(conn, reach, document)
    items = apply_bundle(conn, reach, document, fingerprint=planned.fingerprint, now=NOW)
    return planned.plan.items, items


def actions(items):
    return {item.action for item in items}


def revisions(conn, reach):
    tables = list_tables(conn, tenant_id=reach.tenant_id, limit=100)
    return {table.name: table.revision for table in tables}


def test_an_export_is_nothing_to_do_and_the_same_bytes_in_another_tenant(conn):
    @of_examples(EXAMPLES)
    @given(documents())
    def holds(lines):
        reach, other = a_reach(conn), a_reach(conn)
        apply(conn, reach, text(lines))
        exported = export_bundle(conn, reach).encode()

        # What a person wrote, defaults and all, is what stands; without an id it is adopted.
        assert actions(plan(conn, reach, text(lines)).plan.items) <= {"noop", "adopt"}
        before = revisions(conn, reach)
        planned, _ = apply(conn, reach, exported)
        assert actions(planned) == {"noop"}
        assert revisions(conn, reach) == before
        apply(conn, other, exported)
        assert export_bundle(conn, other).encode() == exported

    holds()


def test_what_is_edited_becomes_what_was_planned_and_nothing_else(conn):
    seen = Counter()

    def check(first):
        @of_examples(EXAMPLES // len(EDITS) + 1)
        @given(documents(), st.data())
        def holds(lines, data):
            reach = a_reach(conn)
            apply(conn, reach, text(lines))
            document = text(data.draw(edits(export_bundle(conn, reach), first=first)))
            before = revisions(conn, reach)

            planned, applied = apply(conn, reach, document)

            seen.update(item.action for item in planned)
            seen.update(change.op for item in planned for change in item.changes)
            assert [replace(item, trigger_id=None) for item in planned] == [
                replace(item, trigger_id=None) for item in applied
            ]
            again = plan(conn, reach, document).plan.items
            assert actions(again) <= {"noop", "adopt"}
            standing = {
                item.trigger_id
                for item in plan(conn, reach, export_bundle(conn, reach).encode()).plan.items
            }
            for item in applied:
                if item.kind == "trigger":
                    assert (item.trigger_id in standing) == (item.action != "delete")
            if not any(change.op == "rename" for item in planned for change in item.changes):
                touched = {
                    item.table or item.name
                    for item in planned
                    if item.kind in ("table", "trigger") and item.action not in ("noop", "adopt")
                }
                after = revisions(conn, reach)
                assert {name for name in after if after[name] != before[name]} == touched

        holds()

    for first in EDITS:
        check(first)
    # Else the edits are too tame to tell anything.
    assert {"create", "update", "delete", "noop", "adopt", "rename", "add", "move"} <= {*seen}
