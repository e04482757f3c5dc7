"""Every route by role, by scope, by own and foreign things, against what the contract says of it.

One database for all of it, and some thousand requests. What is sent is sound, so that each refusal
is one of who calls and what they name.
"""

import json
import re
from dataclasses import dataclass, field
from uuid import uuid4

import pytest

from services.api.mounts import MOUNTS
from tests.builders_db import LONG_AGO, insert_tenant
from tests.integration.api.callers import ADMIN_TOKEN, CHANNEL
from tests.integration.api.rights import (
    BODIES,
    NEEDS_A_TENANT,
    PLACES,
    QUERIES,
    RIGHTS,
    ROLES,
    UPLOADS,
)
from tests.integration.api.things import Tenant, table_things, tenant_things

OTHER_CHANNEL = uuid4()
IN = "let in"
EACH = [(mount, route) for mount in MOUNTS for route in mount.routes]
_ID = re.compile(r"<\w+:(\w+)>")


def test_every_route_is_placed():
    assert {route.path for _, route in EACH} <= set(PLACES), "place new routes in rights.py"


@dataclass(frozen=True, kw_only=True)
class Who:
    """Somebody who calls: of which role, with which credentials."""

    name: str
    headers: dict
    role: str | None = None  # None: nobody
    channel: bool = False
    is_admin: bool = False
    names_tenant: bool = True  # an admin who says in which tenant to act


@dataclass(kw_only=True)
class World:
    """Two tenants, and everybody who may call."""

    conn: object
    client: object
    ours: Tenant
    theirs: Tenant
    whos: list
    shared: dict = field(default_factory=dict)

    def things(self, tenant, channel_id, *, method, path):
        """Return ids for an address; of their own for a request that may change what they name."""
        gone = path.endswith("<uuid:table_id>/restore")
        if method == "GET":
            key = tenant.mark, channel_id
            if key not in self.shared:
                self.shared[key] = self._made(tenant, channel_id, gone=False)
            return self.shared[key]
        return self._made(tenant, channel_id, gone=gone)

    def _made(self, tenant, channel_id, *, gone):
        with self.conn.transaction():
            table = table_things(self.conn, tenant, channel_id=channel_id, gone=gone)
            return table | tenant_things(self.conn, tenant)


@pytest.fixture
def world(conn, client, caller, tenant):
    ours = Tenant(id=tenant.id, mark="ours")
    theirs = Tenant(id=insert_tenant(conn), mark="theirs")
    revoked = caller(tenant, "moderator").headers
    conn.execute("UPDATE api_token SET revoked_at = %s", [LONG_AGO])
    whos = [
        Who(name="nobody", headers={}),
        Who(name="wrong token", headers={"Authorization": "Bearer dbk_" + "x" * 43}),
        Who(name="revoked", headers=revoked),
        Who(name="wrong admin", headers={"X-ADMIN-TOKEN": "wrong"}),
        Who(name="admin", headers={"X-ADMIN-TOKEN": ADMIN_TOKEN}, is_admin=True),
        Who(
            name="admin of no tenant",
            headers={"X-ADMIN-TOKEN": ADMIN_TOKEN},
            is_admin=True,
            names_tenant=False,
        ),
    ]
    for role in ROLES:
        whos.append(Who(name=role, headers=caller(tenant, role).headers, role=role))
        of_channel = caller(tenant, role, channel_id=CHANNEL).headers
        whos.append(Who(name=f"{role} of a channel", headers=of_channel, role=role, channel=True))
    return World(conn=conn, client=client, ours=ours, theirs=theirs, whos=whos)


def expected(mount, route, who):
    """Return what the contract says of a caller before it is known what they name."""
    if mount.scope == "root":
        if not who.is_admin:
            return 403, "admin_token_invalid"
        needs_tenant = f"{route.method} {route.path}" in NEEDS_A_TENANT
        return IN if who.names_tenant or not needs_tenant else (400, "field_missing")
    if mount.scope == "v1" and who.is_admin:
        return IN if who.names_tenant else (400, "field_missing")
    if who.role is None:
        return 401, "unauthenticated"
    if (mount.scope == "channel") != who.channel:
        return (
            403,
            "channel_token_needed" if mount.scope == "channel" else "channel_token_forbidden",
        )
    if who.role not in RIGHTS[PLACES[route.path]].of(route.method):
        return 403, "role_missing"
    return IN


def ids_of(route):
    return _ID.findall(route.path)


def targets(mount, route, who):
    """Yield (what is named, what is answered) for somebody who is let in."""
    yield "ours", IN
    ids = ids_of(route)
    if ids == ["chatroom_id"] or not ids:  # any UUID is a chatroom, of everybody
        return
    if f"{route.method} {route.path}" == "PUT /secrets/<secret:secret_name>":  # it makes its own
        return
    if "table_id" not in ids:
        yield "theirs", (404, None)
        return
    if len(ids) > 1:
        yield "theirs in our table", (404, None)
    if mount.scope == "root":
        yield "theirs", IN
        return
    yield "theirs", (403, "tenant_forbidden")
    if mount.scope == "channel":
        yield "of another channel", (403, "channel_forbidden")
        yield "of no channel", (403, "channel_forbidden")


def things_named(world, mount, route, target):
    channel_id = CHANNEL if mount.scope == "channel" else None
    at = {"method": route.method, "path": route.path}
    ours = world.things(world.ours, channel_id, **at)
    match target:
        case "ours":
            return ours
        case "theirs":
            return world.things(world.theirs, channel_id, **at)
        case "theirs in our table":
            theirs = world.things(world.theirs, channel_id, **at)
            return theirs | {"table_id": ours["table_id"]}
        case "of another channel":
            return world.things(world.ours, OTHER_CHANNEL, **at)
        case "of no channel":
            return world.things(world.ours, None, **at)


def filled(value, ids):
    text = json.dumps(value).replace("{unique}", str(uuid4()))
    for name, id in ids.items():
        text = text.replace("{" + name + "}", str(id))
    return json.loads(text)


def send(world, mount, route, who, ids):
    """Send a sound request and return the answer."""
    named = dict(ids)
    if route.path.endswith("<id:record_id>/restore"):
        named["record_id"] = ids["deleted_record_id"]
    if route.path == "/workflows/<id:workflow_id>" and route.method == "DELETE":
        named["workflow_id"] = ids["idle_workflow_id"]
    place = f"{route.method} {route.path}"
    query = filled(QUERIES.get(place, {}), named)
    if who.is_admin and who.names_tenant and "tenant" in route.query().fields:
        query["tenant"] = str(world.ours.id)
    options = {}
    if route.body is not None:
        options["json"] = filled(BODIES[place], named)
    elif route.upload is not None:
        options |= {"data": UPLOADS[place], "content_type": route.media[0]}
    path = mount.prefix + _ID.sub(lambda found: str(named[found[1]]), route.path)
    return world.client.open(
        path, method=route.method, headers=who.headers, query_string=query, **options
    )


def fault(answer, outcome):
    """Return what is wrong with an answer, None if it is the expected one."""
    text = answer.get_data(as_text=True)
    code = json.loads(text)["type"].rpartition(":")[2] if answer.status_code >= 400 else None
    if outcome == IN:
        # 409: the state of what is named does not allow it, which only those are told who may.
        return None if answer.status_code < 300 or answer.status_code == 409 else text[:300]
    status, wanted = outcome
    is_right = answer.status_code == status and wanted in (None, code)
    return None if is_right and "theirs" not in text else text[:300]


THEIRS = """
SELECT string_agg(
    format('SELECT md5(coalesce(string_agg(t::text, %%L ORDER BY t::text), %%L)) FROM %%I AS t'
        ' WHERE tenant_id = %%L', ',', '', table_name, %s::text),
    ' UNION ALL ' ORDER BY table_name
)
FROM information_schema.columns
WHERE table_schema = 'public' AND column_name = 'tenant_id'
"""


def state_of(world, tenant):
    statement = world.conn.execute(THEIRS, [tenant.id]).fetchone()[0]
    return world.conn.execute(statement).fetchall()


@pytest.mark.parametrize("mount", MOUNTS, ids=lambda mount: mount.name)
def test_everybody_may_what_the_contract_says_and_nothing_else(world, mount):
    faults = []
    for route in mount.routes:
        ids = things_named(world, mount, route, "ours")
        for who in world.whos:
            outcome = expected(mount, route, who)
            if outcome == IN:
                faults += faults_of_the_admitted(world, mount, route, who)
            elif wrong := fault(send(world, mount, route, who, ids), outcome):
                faults.append((route.operation_id, who.name, outcome, wrong))

    assert faults == []


def faults_of_the_admitted(world, mount, route, who):
    for target, outcome in targets(mount, route, who):
        ids = things_named(world, mount, route, target)
        may_change = outcome != IN and route.method != "GET"
        before = state_of(world, world.theirs) if may_change else None
        answer = send(world, mount, route, who, ids)
        if wrong := fault(answer, outcome):
            yield route.operation_id, who.name, target, outcome, wrong
        if may_change and state_of(world, world.theirs) != before:
            yield route.operation_id, who.name, target, "changed something"
        if mount.scope != "root" and "theirs" in answer.get_data(as_text=True):
            yield route.operation_id, who.name, target, "told something"
