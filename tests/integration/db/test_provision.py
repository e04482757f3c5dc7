import pytest

from shared.db.connection import connect
from shared.db.provision import ensure_database, ensure_role


@pytest.fixture
def server(postgres_process):
    return postgres_process.server


@pytest.fixture
def admin(server):
    with connect(server.url("postgres"), application_name="test") as conn:
        yield conn
        conn.execute('DROP DATABASE IF EXISTS "its own"')
        conn.execute('DROP ROLE IF EXISTS "the owner"')


def test_role_and_database_are_made_once(admin, server):
    for password in ("first", "it's second"):
        ensure_role(admin, role="the owner", password=password)
        ensure_database(admin, database="its own", owner="the owner")

    url = server.url("its%20own", role="the%20owner", password="it's%20second")
    with connect(url, application_name="test") as conn:
        conn.execute("CREATE TABLE made (id int)")
        superuser = conn.execute("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
        assert superuser.fetchone() == (False,)
