"""A secret's deletion beside a save that names it, in every order of their statements.

Whichever comes first, no live definition names a secret that is gone.
"""

from contextlib import suppress

import pytest

from shared.errors import Conflict, InvalidInput
from shared.queries.secrets import find_secret, list_naming
from shared.sealing import Sealer
from shared.usecases.manage_rules import RuleDraft, make_rule
from shared.usecases.manage_secrets import delete_secret, set_secret
from shared.usecases.manage_workflows import make_workflow
from tests.builders_db import NOW, insert_table, insert_tenant
from tests.integration.usecases.world import a_known, save
from tests.interleavings import Side, SteppedConnection, every_interleaving

HOOK = {
    "type": "webhook",
    "url": "https://example.com/in",
    "headers": {"Authorization": {"secret": "crm_token"}},
}


def _save_trigger(conn, table):
    save(conn, table, a_known(on="record_created", schedule=None, actions=[HOOK]))


def _save_rule(conn, table):
    draft = RuleDraft(name="paid", event="paid", conditions=[], actions=[HOOK], enabled=True)
    make_rule(conn, tenant_id=table.tenant_id, draft=draft, now=NOW)


def _save_workflow(conn, table):
    nodes = [{"type": "action", "action": HOOK}]
    make_workflow(conn, tenant_id=table.tenant_id, name="w", nodes=nodes, now=NOW)


@pytest.fixture
def open_side(database_url):
    opened = []

    def open_side():
        opened.append(SteppedConnection.connect(database_url, autocommit=True))
        # What only one of the sides touches is not stopped at.
        opened[-1].passing = lambda statement: (
            not any(part in statement for part in ("FROM secret", "FROM tenant", "INTO", "UPDATE"))
        )
        return opened[-1]

    yield open_side
    for conn in opened:
        conn.close()


@pytest.mark.parametrize("save_one", [_save_trigger, _save_rule, _save_workflow])
def test_no_definition_names_a_secret_that_was_deleted_meanwhile(
    conn, other_conn, open_side, save_one
):
    saver, deleter = open_side(), open_side()

    def world():
        table = insert_table(conn, tenant_id=insert_tenant(conn))
        set_secret(
            conn, tenant_id=table.tenant_id, name="crm_token", value="x", sealer=Sealer(), now=NOW
        )

        def save_it():
            with suppress(InvalidInput):
                save_one(saver, table)

        def delete_it():
            with suppress(Conflict):
                delete_secret(deleter, tenant_id=table.tenant_id, name="crm_token")

        sides = [
            Side(name="saver", conn=saver, work=save_it),
            Side(name="deleter", conn=deleter, work=delete_it),
        ]
        return sides, lambda run: _check(conn, table, run)

    ran = every_interleaving(world, monitor=other_conn)

    assert len(ran) > 3


def _check(conn, table, run):
    naming = list_naming(conn, table.tenant_id, "crm_token", limit=1)
    is_there = find_secret(conn, table.tenant_id, "crm_token") is not None
    assert is_there == bool(naming), run.steps
