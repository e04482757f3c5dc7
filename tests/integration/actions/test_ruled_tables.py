"""Rules for chatrooms that came after an action was saved: it fails, and touches nothing."""

from uuid import UUID

import pytest

from shared.actions.failures import ActionFailed
from shared.domain.columns import Column
from shared.effects.record_writes import create_records
from shared.queries.custom_tables import insert_table
from shared.usecases.set_scp_rules import set_scp_rules
from tests.integration.actions.contexts import COLUMNS, NOW, execute

CHANNEL = UUID(int=7)
SLOTS = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="from", type="datetime"),
    Column(id="c3", name="to", type="datetime"),
    Column(id="c4", name="status", type="select", options=("open",)),
)
LINES = (
    Column(id="c1", name="who", type="text"),
    Column(id="c2", name="from", type="text"),
    Column(id="c3", name="to", type="text"),
    Column(id="c4", name="day", type="date"),
)
NAMES = {"resource": "who", "start": "from", "end": "to"}


def rule(conn, table):
    """Let one chatroom read the table."""
    rules = [{"operations": ["read"], "chatrooms": [str(UUID(int=1))]}]
    set_scp_rules(conn, table.id, rules, now=NOW)


def detail_of(config, context):
    with pytest.raises(ActionFailed) as caught:
        execute(config, context)
    assert not caught.value.transient
    return caught.value.detail


@pytest.fixture
def channel_table(workspace):
    def make(columns, name):
        return insert_table(
            workspace.conn,
            tenant_id=workspace.tenant.id,
            channel_id=CHANNEL,
            name=name,
            columns=columns,
            columns_made=len(columns),
            now=NOW,
        )

    return make


def test_no_record_is_created(workspace, channel_table):
    target = channel_table(COLUMNS, "ruled")
    rule(workspace.conn, target)
    config = {"type": "create_record", "table_id": str(target.id), "data": {}}

    assert detail_of(config, workspace.context()) == (
        "table 'ruled' has channel SCP rules: "
        "an action has no acting chatroom and so cannot meet the channel floor"
    )


@pytest.mark.parametrize(
    "config", [{"type": "delete_record"}, {"type": "update_record", "data": {}}]
)
def test_the_row_of_a_run_stays_as_it_is(workspace, channel_table, config):
    own = channel_table(COLUMNS, "own")
    [record] = create_records(workspace.conn, own, [{}], now=NOW)
    rule(workspace.conn, own)

    context = workspace.context(table_id=own.id, record_id=record.id)

    assert detail_of(config, context).startswith("table 'own' has channel SCP rules")


@pytest.mark.parametrize("part", ["roster", "target"])
def test_no_slots_are_made(workspace, channel_table, part):
    tables = {"roster": channel_table(LINES, "r"), "target": channel_table(SLOTS, "t")}
    rule(workspace.conn, tables[part])
    config = {
        "type": "materialize_slots",
        "roster": {"table_id": str(tables["roster"].id), "date": "day", **NAMES},
        "target": {"table_id": str(tables["target"].id), "status": "status", **NAMES},
        "slot_minutes": 30,
        "horizon_days": 1,
    }

    assert detail_of(config, workspace.recordless()) == (
        f"materialize_slots {part} table_id names a table with channel SCP rules: "
        "an action has no acting chatroom and so cannot meet the channel floor"
    )
