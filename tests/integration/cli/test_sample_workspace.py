from collections import Counter
from datetime import timedelta

import pytest

from services.cli.sample_workspace import TENANT, ensure_sample_workspace, ensure_token
from shared.db.clock import server_now
from shared.queries.custom_tables import list_tables
from shared.sealing import Sealer
from shared.usecases.preview import preview
from shared.usecases.tick import tick
from shared.usecases.tokens import authenticate
from tests.builders_db import NOW


@pytest.fixture
def sample(conn):
    """The tenant of the sample workspace, made at a quarter past nine."""
    return ensure_sample_workspace(
        conn, sealer=Sealer(), now=NOW + timedelta(minutes=15, seconds=1)
    )[0]


def runs_by_kind(conn):
    return Counter(kind for (kind,) in conn.execute("SELECT kind FROM trigger_run"))


def test_every_kind_of_trigger_fires_within_the_first_minute(conn, sample):
    tick(conn, now=NOW + timedelta(minutes=15, seconds=2))
    at_once = runs_by_kind(conn)
    conn.execute("UPDATE custom_table SET scanned_at = 'epoch'")
    tick(conn, now=NOW + timedelta(minutes=16))

    assert at_once == {"date_column_reached": 2, "interval": 1, "daily": 1, "record_created": 5}
    assert runs_by_kind(conn) - at_once == {"cron": 1, "date_column_reached": 1}


def test_a_table_has_the_columns_of_the_sources_example(conn, sample):
    tables = {table.name: table for table in list_tables(conn, tenant_id=sample.id, limit=10)}

    names = [column.name for column in tables["案件"].columns]
    assert names[:2] == ["案件名稱", "到期時間"]


def test_a_purchase_waits_to_start_a_workflow_within_the_first_minute(conn, sample):
    [action] = conn.execute(
        "SELECT action_type, execute_at - created_at, source_config IS NOT NULL"
        " FROM scheduled_action WHERE tenant_id = %s",
        [sample.id],
    )

    assert action == ("start_workflow", timedelta(seconds=30), True)


def test_every_trigger_is_valid(conn, sample):
    arms = [
        arm["config_status"]
        for table in list_tables(conn, tenant_id=sample.id, limit=10)
        for arm in preview(conn, table).triggers
    ]

    assert arms == ["valid"] * 4


def test_it_is_made_once(conn, sample):
    again, is_new = ensure_sample_workspace(conn, sealer=Sealer(), now=server_now(conn))

    assert (again.id, is_new) == (sample.id, False)
    assert sample.name == TENANT
    assert len(list_tables(conn, tenant_id=sample.id, limit=10)) == 3


def test_the_token_stays_while_it_is_good(conn, sample):
    first = ensure_token(conn, sample, known="", now=NOW)
    kept = ensure_token(conn, sample, known=first, now=NOW)
    replaced = ensure_token(conn, sample, known="dbk_" + "x" * 43, now=NOW)

    assert first == kept != replaced
    assert authenticate(conn, text=first).tenant_id == sample.id
    assert authenticate(conn, text=replaced).role == "moderator"
