from uuid import UUID

import pytest

from shared.queries import slots
from tests.builders_db import insert_table
from tests.integration.queries.plans import plans_of

# Slots of every hour for two years, in one table of two.
_FILL = """
INSERT INTO record (tenant_id, table_id, data, origin_key, roster_id, created_at, updated_at)
SELECT
    %(tenant_id)s, %(table_id)s, '{"c3": "x", "c4": "open"}',
    'slot:' || to_char('2026-01-01'::timestamp + n * interval '1 hour', 'YYYY-MM-DD HH24:MI')
        || ':' || md5(n::text),
    %(table_id)s, '2026-01-01Z', '2026-01-01Z'
FROM generate_series(1, 17520) AS n
"""


@pytest.fixture
def filled(conn):
    """A table of slots beside another one of the tenant, both of them large."""
    other = insert_table(conn)
    table = insert_table(conn, tenant_id=other.tenant_id)
    for one in (other, table):
        conn.execute(_FILL, {"tenant_id": one.tenant_id, "table_id": one.id})
    conn.execute("ANALYZE")
    return table


def stretch(table):
    return {
        "table_id": table.id,
        "roster_id": UUID(int=1),
        "status": "c4",
        "open": '"open"',
        "end": "c3",
        "first": "slot:2027-01-01 00:00",
        "until": "slot:2027-01-03 00:00",
        "limit": 5001,
    }


def test_the_slots_of_a_stretch_are_found_by_their_keys(conn, filled):
    for plan in plans_of(conn, slots._LIST_SLOTS, stretch(filled)):
        assert "a_record_is_made_once" in plan
        assert "Seq Scan" not in plan


def test_a_stretch_holds_what_begins_within_it_and_nothing_else(conn, filled):
    rows = conn.execute(slots._LIST_SLOTS, stretch(filled)).fetchall()

    starts = [key[5:21] for _, key, _, _ in rows]
    assert (len(starts), starts[0], starts[-1]) == (48, "2027-01-01 00:00", "2027-01-02 23:00")


def test_slots_are_pruned_by_their_ids(conn, filled):
    parameters = stretch(filled) | {"ids": list(range(1, 21)), "now": "2026-01-01Z"}

    for plan in plans_of(conn, slots._PRUNE_SLOTS, parameters):
        assert "record_pkey" in plan
        assert "Seq Scan" not in plan
