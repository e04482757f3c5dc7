"""The real application on a fresh database, and callers of each kind."""

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pytest

from services.api.app import create_app
from services.api.dependencies import Parts
from shared.db.clock import server_now
from shared.db.connection import open_pool
from shared.settings import Secret
from shared.usecases.tokens import create_tenant, issue_token

ADMIN_TOKEN = "the admin token of the tests"
CHANNEL = UUID("c0000000-0000-4000-8000-000000000001")
MAX_BODY_BYTES = 1024 * 1024
MAX_BULK_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody with credentials, who speaks to one scope's table routes by default."""

    client: Any
    headers: dict[str, str]
    tables: str

    def request(self, method, path, *, headers=None, **options):
        headers = {**self.headers, **(headers or {})}
        return self.client.open(path, method=method, headers=headers, **options)

    def get(self, path, **options):
        return self.request("GET", path, **options)

    def post(self, path, **options):
        return self.request("POST", path, **options)

    def put(self, path, **options):
        return self.request("PUT", path, **options)

    def patch(self, path, **options):
        return self.request("PATCH", path, **options)

    def delete(self, path, **options):
        return self.request("DELETE", path, **options)


def problem(response):
    """Return (status, code, detail) of a problem document."""
    assert response.content_type == "application/problem+json", response.get_data(as_text=True)
    document = json.loads(response.data)
    assert document["status"] == response.status_code
    assert document["title"]
    prefix, _, code = document["type"].rpartition(":")
    assert prefix == "urn:duebook:problem"
    return response.status_code, code, document["detail"]


def faults(response):
    """Return [(pointer, code)] of a problem document."""
    return [(error["pointer"], error["code"]) for error in json.loads(response.data)["errors"]]


def send_stream(who, path, stream, *, media, length=None, headers=None):
    """POST what a stream yields, whatever Content-Length it is said to have."""
    said = {} if length is None else {"CONTENT_LENGTH": str(length)}
    return who.post(
        path,
        content_type=media,
        headers=headers,
        environ_overrides={"wsgi.input": stream, **said},
    )


class Unreadable:
    """A body of which nothing may be read."""

    def read(self, size=-1):
        raise AssertionError("read")


@pytest.fixture
def pool(database_url):
    with open_pool(database_url, application_name="api-tests", size=4) as opened:
        yield opened


@pytest.fixture
def app(pool):
    parts = Parts(
        sessions=pool.connection,
        admin_token=Secret(ADMIN_TOKEN),
        max_body_bytes=MAX_BODY_BYTES,
        max_bulk_bytes=MAX_BULK_BYTES,
    )
    return create_app(parts)


@pytest.fixture
def client(app):
    return app.test_client()


@pytest.fixture
def tenant(conn):
    return create_tenant(conn, name="ours", key_secret=b"k" * 32, now=server_now(conn))


@pytest.fixture
def other_tenant(conn):
    return create_tenant(conn, name="theirs", key_secret=b"k" * 32, now=server_now(conn))


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


COLUMNS = [
    {"name": "案件名稱", "type": "text"},
    {"name": "到期時間", "type": "datetime"},
    {"name": "amount", "type": "number"},
    {"name": "done", "type": "checkbox"},
    {"name": "state", "type": "select", "options": ["open", "closed"]},
    {"name": "day", "type": "date"},
    {"name": "more", "type": "json"},
]


def new_table(who, *, tenant=None, **parts):
    """Create a table in the scope of a caller and return its path and its document."""
    query = f"?tenant={tenant.id}" if who.tables.startswith("/root") else ""
    body = {"name": "cases", "columns": COLUMNS, **parts}
    answer = who.post(who.tables + query, json=body)
    assert answer.status_code == 201, answer.get_data(as_text=True)
    return f"{who.tables}/{answer.json['id']}", answer.json


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
