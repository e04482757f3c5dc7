"""The example of docs/slots.md, from the roster to a booked slot."""

import json
import re
from pathlib import Path

from shared.db.clock import server_now
from shared.domain.columns import read_cells
from shared.effects.record_writes import create_records, update_record
from shared.queries.custom_tables import get_table
from shared.queries.records import list_records
from shared.usecases.manage_tables import create_table
from shared.usecases.set_triggers import set_triggers
from shared.usecases.slots_preview import preview_slots
from shared.usecases.tick import tick
from tests.builders_db import insert_tenant

_BLOCKS = re.compile(r"```json\n(.+?)```", re.DOTALL)


def make_table(conn, tenant_id, body):
    return create_table(
        conn,
        tenant_id=tenant_id,
        channel_id=None,
        name=body["name"],
        raw_columns=body["columns"],
        now=server_now(conn),
    )


def test_the_example_of_the_documentation_does_what_it_says(bench, conn):
    blocks = _BLOCKS.findall(Path("docs/slots.md").read_text("utf-8"))
    roster_body, slots_body, line = map(json.loads, blocks[:3])
    tenant_id = insert_tenant(conn)
    roster = make_table(conn, tenant_id, roster_body)
    slots = make_table(conn, tenant_id, slots_body)
    cells = read_cells(line["data"], roster.columns)
    create_records(conn, roster, [cells], now=server_now(conn))
    body = blocks[3].replace("{roster}", str(roster.id)).replace("{slots}", str(slots.id))

    set_triggers(conn, roster.id, json.loads(body)["triggers"], now=server_now(conn))

    [action] = preview_slots(conn, get_table(conn, roster.id), now=server_now(conn))
    assert action == action | {"kept": 0, "pruned": 0, "invalid": 0, "error": None}
    # Where it is Tuesday, some of today's may have begun.
    assert 3 <= action["created"] <= 6
    tick(conn, table_limit=10, record_limit=10)
    bench.execute()
    [run] = conn.execute("SELECT status, action_results FROM trigger_run").fetchall()
    assert run[0] == "done"
    made = list_records(conn, slots, limit=10).records
    assert 3 <= run[1][0]["created"] == len(made) <= 6

    booked = made[0]
    taken = read_cells({"status": "booked", "patient": "Chen"}, slots.columns)
    update_record(conn, slots, booked.id, taken, now=server_now(conn))
    [after] = preview_slots(conn, get_table(conn, roster.id), now=server_now(conn))
    assert (after["kept"], after["pruned"]) == (len(made), 0)
