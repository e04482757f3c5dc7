"""The real application on a fresh database, and callers of each kind."""

import pytest

from services.api.app import create_app
from services.api.dependencies import Parts, operator_sessions
from shared.db.clock import server_now
from shared.db.connection import open_pool
from shared.db.roles import API
from shared.sealing import Sealer
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks
from shared.usecases.tokens import create_tenant, issue_token
from tests.integration.api.callers import (
    ADMIN_TOKEN,
    CHANNEL,
    MAX_BODY_BYTES,
    MAX_BULK_BYTES,
    PUBLIC_URL,
    Caller,
    new_table,
)
from tests.integration.api.workspace import a_world


@pytest.fixture
def pool(login_url):
    url = login_url(API)
    with open_pool(url, application_name="api-tests", size=4, role=API) as opened:
        yield opened


@pytest.fixture
def parts(pool, database_url):
    return Parts(
        sessions=pool.connection,
        operator_sessions=operator_sessions(database_url),
        admin_token=Secret(ADMIN_TOKEN),
        clicks=PostgresClicks(),
        public_url=PUBLIC_URL,
        max_body_bytes=MAX_BODY_BYTES,
        max_bulk_bytes=MAX_BULK_BYTES,
    )


class _PresentParts:
    """Those of the test that runs."""

    def __getattr__(self, name):
        return getattr(self.of_test, name)


@pytest.fixture(scope="session")
def shared_app():
    """An application and its parts: routes take long to make, and nothing but parts has state."""
    parts = _PresentParts()
    return create_app(parts), parts


@pytest.fixture
def app(shared_app, parts):
    application, present = shared_app
    present.of_test = parts
    return application


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def tenant(conn):
    return create_tenant(
        conn, name="ours", key_secret=b"k" * 32, sealer=Sealer(), now=server_now(conn)
    )


@pytest.fixture
def other_tenant(conn):
    return create_tenant(
        conn, name="theirs", key_secret=b"k" * 32, sealer=Sealer(), now=server_now(conn)
    )


@pytest.fixture
def caller(conn, client):
    """Make a caller with a token of its own."""
    made = iter(range(1, 256))

    def make(tenant, role, *, channel_id=None):
        _, text = issue_token(
            conn,
            tenant_id=tenant.id,
            name=role,
            role=role,
            channel_id=channel_id,
            secret=bytes([next(made)]) * 32,
            now=server_now(conn),
        )
        tables = "/channel/custom-tables" if channel_id else "/tenant/custom-tables"
        return Caller(
            client=client, headers={"Authorization": f"Bearer {text}"}, tables=f"{tables}/tables"
        )

    return make


@pytest.fixture
def moderator(caller, tenant):
    return caller(tenant, "moderator")


@pytest.fixture
def editor(caller, tenant):
    return caller(tenant, "editor")


@pytest.fixture
def viewer(caller, tenant):
    return caller(tenant, "viewer")


@pytest.fixture
def service(caller, tenant):
    return caller(tenant, "service")


@pytest.fixture
def stranger(caller, other_tenant):
    """A moderator of another tenant."""
    return caller(other_tenant, "moderator")


@pytest.fixture
def channel_moderator(caller, tenant):
    return caller(tenant, "moderator", channel_id=CHANNEL)


@pytest.fixture
def admin(client):
    return Caller(
        client=client, headers={"X-ADMIN-TOKEN": ADMIN_TOKEN}, tables="/root/custom-tables/tables"
    )


@pytest.fixture
def nobody(client):
    return Caller(client=client, headers={}, tables="/tenant/custom-tables/tables")


@pytest.fixture
def table(moderator):
    """The path of a table in the tenant scope."""
    return new_table(moderator)[0]


@pytest.fixture(params=["root", "tenant", "channel"])
def author(request, admin, moderator, channel_moderator):
    """A moderator in each of the three scopes."""
    return {"root": admin, "tenant": moderator, "channel": channel_moderator}[request.param]


@pytest.fixture
def authored(author, tenant):
    """The path of a table in the scope of the author."""
    return new_table(author, tenant=tenant)[0]


@pytest.fixture
def world(request, conn, admin, moderator, channel_moderator, stranger, tenant, other_tenant):
    """A workspace with something of everything, for a caller of the scope in the parameter."""
    who = {"root": admin, "channel": channel_moderator}.get(request.param, moderator)
    return a_world(conn, who, moderator, stranger, tenant=tenant, other_tenant=other_tenant)
