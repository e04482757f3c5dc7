"""Rows of either kind of work, for tests of the life cycle that both have."""

from tests.builders_db import insert_run, insert_table, insert_tenant
from tests.builders_delayed import insert_action


def insert_work(conn, kind, *, status="pending", tenant_id=None, **more) -> int:
    """Insert a row of either kind, ``held`` perhaps, and return its id."""
    tenant_id = tenant_id or insert_tenant(conn)
    if kind == "scheduled_action":
        status = "processing" if status == "held" else status
        return insert_action(conn, tenant_id, status=status, **more)
    status = "running" if status == "held" else status
    return insert_run(conn, insert_table(conn, tenant_id=tenant_id), status=status, **more)


def insert_works(conn, kind, *, count, tenant_id=None, **more) -> list[int]:
    """Insert that many rows of a kind, all of one tenant, and return their ids."""
    tenant_id = tenant_id or insert_tenant(conn)
    return [insert_work(conn, kind, tenant_id=tenant_id, **more) for _ in range(count)]
