"""Who migrates makes the roles of the services, or is told who has to: on a server without them."""

import pytest
from psycopg.sql import SQL, Identifier

from services.cli.embedded_postgres import start_postgres
from shared.db.connection import connect
from shared.db.migrate import migrate
from shared.db.provision import ensure_database
from shared.db.roles import API, ROLES, require_role
from shared.errors import Conflict
from tests.servers.temporary import temporary_folder

PASSWORD = "p"


@pytest.fixture(scope="module")
def server():
    with temporary_folder("roles") as folder:
        started = start_postgres(folder / "home", temporary=True)
        yield started
        started.stop()


@pytest.fixture
def admin(server):
    with connect(server.url("postgres"), application_name="test") as conn:
        yield conn
        conn.execute("DROP DATABASE IF EXISTS mine WITH (FORCE)")
        for role in ("owner", *ROLES):
            conn.execute(SQL("DROP ROLE IF EXISTS {}").format(Identifier(role)))


@pytest.fixture
def owner_url(server, admin):
    """Makes an owner with these attributes, and a database of theirs; returns their URL."""

    def make(attributes):
        admin.execute(f"CREATE ROLE owner LOGIN PASSWORD '{PASSWORD}' {attributes}")
        ensure_database(admin, database="mine", owner="owner")
        return server.url("mine", role="owner", password=PASSWORD)

    return make


@pytest.mark.parametrize("attributes", ["SUPERUSER", "CREATEROLE"])
def test_who_may_make_roles_needs_nobody(owner_url, attributes):
    url = owner_url(attributes)

    migrate(url)

    for role in ROLES:
        require_role(url, role, application_name="test")
        with connect(url, application_name="test", role=role) as conn:
            assert conn.execute("SELECT count(*) FROM custom_table").fetchone() == (0,)


def test_who_may_not_is_told_what_to_run(owner_url, admin):
    url = owner_url("")
    with pytest.raises(Conflict) as refused:
        migrate(url)
    assert refused.value.code == "migration_forbidden"

    _, _, told = refused.value.message.partition("then migrate again: ")
    for statement in filter(None, told.split(";")):
        admin.execute(statement)

    migrate(url)
    require_role(url, API, application_name="test")


def test_the_release_before_goes_on_beside_the_migration(owner_url):
    # It acts as the owner, and knows of no role and of no tenant to tell.
    url = owner_url("CREATEROLE")
    migrate(url)

    with connect(url, application_name="test") as conn:
        conn.execute("INSERT INTO tenant (name, created_at) VALUES ('t', now())")
        conn.execute(
            "INSERT INTO custom_table"
            " (tenant_id, name, columns, columns_made, created_at, updated_at)"
            " SELECT id, 't', '[]', 0, now(), now() FROM tenant"
        )
        assert conn.execute("SELECT count(*) FROM custom_table").fetchone() == (1,)
