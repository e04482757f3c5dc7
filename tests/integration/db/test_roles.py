"""What each service's role may see and do, told by logins that have that role alone.

The tables come from the catalogue, so that a new one is held to the same.
"""

import psycopg
import pytest
from psycopg.sql import SQL, Identifier, Literal
from psycopg_pool import PoolTimeout

from shared.db import connection
from shared.db.connection import connect, open_pool
from shared.db.roles import API, ROLES, SCANNER, WORKER, require_role, schema_fault
from shared.errors import Forbidden
from tests.builders_db import insert_tenant, insert_worker
from tests.integration.api.things import Tenant, table_things, tenant_things
from tests.servers.postgres import LOGINS, ROLE

# Tables without a policy, and why.
FREE = {
    "api_token": "looked up before a tenant is known",
    "tracking_link": "looked up before a tenant is known",
    "tracking_click": "has no tenant: the click of a link, looked up by it",
    "tenant": "asked for by the admin alone, who may know all",
    "worker": "has no tenant",
    "schema_migration": "has no tenant",
}
_TABLES = """
SELECT relname, relrowsecurity AND relforcerowsecurity, EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = pg_class.oid AND attname = 'tenant_id' AND NOT attisdropped
)
FROM pg_class
WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'
ORDER BY relname
"""
_POLICIES = """
SELECT tablename, array_agg(policyname::text || ' to ' || array_to_string(roles, ', ')
    ORDER BY policyname)
FROM pg_policies
GROUP BY tablename
"""
_PRIVILEGES = """
SELECT relname, privilege
FROM pg_class
CROSS JOIN unnest(
    ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'TRIGGER', 'REFERENCES']
) AS privilege
WHERE relnamespace = 'public'::regnamespace
    AND relkind = 'r'
    AND has_table_privilege(%s, oid, privilege)
"""


@pytest.fixture
def session(login_url):
    """Opens sessions of a service's own login."""
    opened = []

    def open(role):
        opened.append(connect(login_url(role), application_name="test", role=role))
        return opened[-1]

    yield open
    for conn in opened:
        conn.close()


@pytest.fixture
def tenants(conn):
    """Two tenants with one of everything, and what each table has of them."""
    insert_worker(conn)
    made = [Tenant(id=insert_tenant(conn), mark=mark) for mark in ("ours", "theirs")]
    for tenant in made:
        things = table_things(conn, tenant) | tenant_things(conn, tenant)
        _fill_the_rest(conn, tenant, things)
    return made


def _fill_the_rest(conn, tenant, things):
    """Give every table that the builders left out a row of the tenant."""
    state = conn.execute(
        "SELECT id FROM trigger_state WHERE table_id = %s", [things["table_id"]]
    ).fetchone()[0]
    parameters = things | {"tenant_id": tenant.id, "state": state}
    for statement in _REST:
        conn.execute(statement, parameters)


_REST = (
    "INSERT INTO signing_key (tenant_id, secret, created_at)"
    " VALUES (%(tenant_id)s, decode(repeat('00', 32), 'hex'), now())",
    "INSERT INTO due_value VALUES (%(state)s, %(record_id)s, %(tenant_id)s, 1, now())",
    "INSERT INTO occurrence VALUES (%(state)s, %(record_id)s, '2026-01-01', true, now())",
    "INSERT INTO event (tenant_id, name, created_at) VALUES (%(tenant_id)s, 'e', now())",
    "INSERT INTO idempotent_answer (tenant_id, key, request_hash, created_at)"
    " VALUES (%(tenant_id)s, 'k', decode(repeat('00', 32), 'hex'), now())",
    "INSERT INTO tracking_click (link_id, first_clicked_at) VALUES (%(link_id)s, now())",
    "INSERT INTO backlog (trigger_ref, tenant_id, mode, before_at)"
    " VALUES (%(state)s, %(tenant_id)s, 'consume', now())",
    "INSERT INTO fresh_value VALUES (%(state)s, now(), %(record_id)s, %(tenant_id)s)",
    "INSERT INTO held_value VALUES (%(state)s, %(record_id)s, %(tenant_id)s, now())",
    "INSERT INTO scp_rule"
    " VALUES (%(tenant_id)s, %(table_id)s, 0, '{read}', ARRAY[%(chatroom_id)s])",
)


def _bound(conn):
    """Return the tables that have a policy."""
    return sorted({table for table, _, _ in conn.execute(_TABLES)} - set(FREE))


def _tenants_seen(conn, table):
    """Return how many tenants' rows a session sees in a table: None where it may not look."""
    owner = SQL(
        "(SELECT tenant_id FROM trigger_state WHERE id = trigger_ref)"
        if table == "occurrence"
        else "tenant_id"
    )
    statement = SQL("SELECT count(DISTINCT {}) FROM {}").format(owner, Identifier(table))
    try:
        return conn.execute(statement).fetchone()[0]
    except psycopg.errors.InsufficientPrivilege:
        return None


def test_every_table_is_bound_to_its_tenant_or_says_why_not(conn):
    tables = {table: (forced, has_tenant) for table, forced, has_tenant in conn.execute(_TABLES)}
    policies = dict(conn.execute(_POLICIES).fetchall())

    assert {table for table, (forced, _) in tables.items() if not forced} == set(FREE)
    assert {table for table in tables if table not in policies} == set(FREE)
    both = [
        "of_every_tenant to duebook_scanner, duebook_worker",
        "of_its_tenant to duebook_api",
    ]
    assert [table for table, found in policies.items() if found != both] == []


def test_every_bound_table_has_rows_of_both_tenants(conn, tenants):
    seen = {table: _tenants_seen(conn, table) for table in _bound(conn)}

    assert set(seen.values()) == {2}, seen  # else what follows would prove nothing: fill it


def test_without_a_tenant_the_api_sees_nothing(conn, tenants, session):
    api = session(API)

    seen = {table: _tenants_seen(api, table) for table in _bound(conn)}

    assert set(seen.values()) == {0}, seen
    with api.transaction():
        api.bind(tenants[0].id)
    api.bind(None)  # behind its transaction the setting is not unset, but empty
    assert {_tenants_seen(api, table) for table in _bound(conn)} == {0}


def test_the_api_sees_the_rows_of_its_tenant_alone(conn, tenants, session):
    api, ours = session(API), tenants[0]
    api.bind(ours.id)

    for table in _bound(conn):
        with api.transaction():
            assert _tenants_seen(api, table) == 1, table
            if table == "occurrence":
                continue
            found = api.execute(SQL("SELECT DISTINCT tenant_id FROM {}").format(Identifier(table)))
            assert found.fetchall() == [(ours.id,)], table


def test_the_api_changes_no_row_of_another_tenant(conn, tenants, session):
    api, (ours, theirs) = session(API), tenants
    api.bind(ours.id)
    may = set(conn.execute(_PRIVILEGES, [API]))

    for table in _bound(conn):
        if table == "occurrence":
            continue
        name = Identifier(table)
        theirs_alone = SQL(" WHERE tenant_id = {}").format(theirs.id)
        for verb, statement in (
            ("UPDATE", SQL("UPDATE {} SET tenant_id = tenant_id").format(name) + theirs_alone),
            ("DELETE", SQL("DELETE FROM {}").format(name) + theirs_alone),
        ):
            if (table, verb) in may:
                assert api.execute(statement).rowcount == 0, (table, verb)
                with api.transaction():
                    assert api.execute(statement).rowcount == 0, (table, verb)
        if (table, "UPDATE") in may:
            given_away = SQL("UPDATE {} SET tenant_id = {}").format(name, theirs.id)
            with pytest.raises(psycopg.errors.InsufficientPrivilege), api.transaction():
                api.execute(given_away)


def test_the_api_inserts_no_row_into_another_tenant(conn, tenants, session):
    api, (ours, theirs) = session(API), tenants
    may = {table for table, verb in conn.execute(_PRIVILEGES, [API]) if verb == "INSERT"}
    bound = [table for table in _bound(conn) if table in may and table != "occurrence"]
    assert len(bound) > 12

    for table in bound:
        row = conn.execute(
            SQL("SELECT to_jsonb(one) FROM {} AS one WHERE tenant_id = {}").format(
                Identifier(table), theirs.id
            )
        ).fetchone()[0]
        # The policy is asked before keys, identities and generated columns could refuse the row.
        columns = [name for name in row if name not in ("id", "retry_count")]
        insert = SQL(
            "INSERT INTO {table} ({columns})"
            " SELECT {columns} FROM jsonb_populate_record(NULL::{table}, {row})"
        ).format(
            table=Identifier("public", table),  # one is named as a type of the server is
            columns=SQL(", ").join(map(Identifier, columns)),
            row=psycopg.types.json.Jsonb(row),
        )
        for tenant_id in (ours.id, None):
            api.bind(tenant_id)
            with (
                pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
                api.transaction(),
            ):
                api.execute(insert)


@pytest.mark.parametrize("role", [SCANNER, WORKER])
def test_scanner_and_worker_work_across_tenants(conn, tenants, session, role):
    working = session(role)

    seen = {table: _tenants_seen(working, table) for table in _bound(conn)}

    assert set(seen.values()) == {2, None}, seen
    needed = {"custom_table", "record", "trigger_run", "scheduled_action", "staged_change"}
    assert {table for table in needed if seen[table] != 2} == set()


def test_secrets_are_read_by_the_worker_alone(tenants, session):
    api = session(API)
    api.bind(tenants[0].id)
    with (
        pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"),
        api.transaction(),
    ):
        api.execute(
            "INSERT INTO signing_key (tenant_id, secret, created_at)"
            " VALUES (%s, decode(repeat('00', 32), 'hex'), now())",
            [tenants[1].id],
        )
    secrets = "SELECT secret FROM signing_key"
    assert len(session(WORKER).execute(secrets).fetchall()) == 2
    for role in (API, SCANNER):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session(role).execute(secrets)
    for role in (SCANNER, WORKER):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session(role).execute("SELECT token_hash FROM api_token")
    for role in (API, SCANNER):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            session(role).execute("UPDATE signing_key SET secret = '', sealed_with = 'x'")
        for statement in (
            "SELECT value FROM secret",
            "SELECT FROM secret WHERE value = 'v'",
            "UPDATE secret SET value = value || 'x'",
            "DELETE FROM secret RETURNING value",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                session(role).execute(statement)
    assert len(session(WORKER).execute("SELECT value FROM secret").fetchall()) == 2


@pytest.mark.parametrize("role", ROLES)
def test_no_service_may_empty_or_make_tables(conn, session, role):
    own = {verb for _, verb in conn.execute(_PRIVILEGES, [role])}

    assert own <= {"SELECT", "INSERT", "UPDATE", "DELETE"}
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session(role).execute("CREATE TABLE mine (id int)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session(role).execute("ALTER TABLE record DISABLE ROW LEVEL SECURITY")


def test_an_owner_who_is_of_no_service_sees_nothing(conn, tenants, postgres_process, login_url):
    # FORCE: without it whoever owns the tables would see all of them.
    with connect(postgres_process.server.url(conn.info.dbname), application_name="t") as admin:
        admin.execute("DROP ROLE IF EXISTS another_owner")
        admin.execute("CREATE ROLE another_owner")
        admin.execute("GRANT USAGE ON SCHEMA public TO another_owner")
        try:
            admin.execute("ALTER TABLE record OWNER TO another_owner")
            with admin.transaction():
                admin.execute("SET LOCAL ROLE another_owner")
                assert admin.execute("SELECT count(*) FROM record").fetchone() == (0,)
        finally:
            admin.execute(f"REASSIGN OWNED BY another_owner TO {ROLE}")
            admin.execute("DROP OWNED BY another_owner")
            admin.execute("DROP ROLE another_owner")


@pytest.mark.parametrize("role", ROLES)
def test_a_session_keeps_its_role(session, role):
    conn = session(role)

    conn.execute("RESET ROLE")

    assert conn.execute("SELECT current_user, session_user").fetchone() == (role, LOGINS[role])


@pytest.mark.parametrize("wanted", ROLES)
@pytest.mark.parametrize("role", ROLES)
def test_a_login_of_another_service_is_not_to_be_given_more(login_url, role, wanted):
    if role == wanted:
        require_role(login_url(role), wanted, application_name="test")
        return

    with pytest.raises(Forbidden) as refused:
        require_role(login_url(role), wanted, application_name="test")

    login = f'"{LOGINS[role]}"'
    said = f"the database's role {login} may not act as {wanted}: it is of {role}"
    assert refused.value.message == f"{said}, use a login of {wanted}"
    with pytest.raises(psycopg.OperationalError):
        connect(login_url(role), application_name="test", role=wanted)


@pytest.fixture
def nobodys_url(conn, postgres_process):
    """The URL of a login that is of no service."""
    server = postgres_process.server
    with connect(server.url("postgres"), application_name="test") as admin:
        admin.execute(SQL("CREATE ROLE nobodys LOGIN PASSWORD {}").format(Literal(server.password)))
        yield server.url(conn.info.dbname, role="nobodys", password=server.password)
        admin.execute("DROP ROLE nobodys")


@pytest.mark.parametrize("role", ROLES)
def test_a_login_of_no_service_is_told_what_gives_it_the_role(nobodys_url, postgres_process, role):
    with pytest.raises(Forbidden) as refused:
        require_role(nobodys_url, role, application_name="test")

    told, _, statement = refused.value.message.partition(" run ")
    assert told == (
        f'the database\'s role "nobodys" may not act as {role}: '
        "let a superuser, or who made that role,"
    )
    with connect(postgres_process.server.url("postgres"), application_name="test") as admin:
        admin.execute(statement)
    require_role(nobodys_url, role, application_name="test")


@pytest.mark.parametrize(
    ("schema", "named"), [("theirs", "theirs"), ('"Our Tables"', '"Our Tables"'), (API, '"$user"')]
)
def test_tables_in_a_schema_that_nobody_looks_into_are_not_ours(
    empty_database_url, postgres_process, schema, named
):
    server = postgres_process.server
    with connect(server.url("empty"), application_name="test") as admin:
        admin.execute(f"CREATE SCHEMA {schema}")
        admin.execute(f"CREATE TABLE {schema}.schema_migration ()")

    with connect(server.url("empty", role=LOGINS[API]), application_name="test") as login:
        by_default = schema_fault(login, API)
        login.execute(f"SET search_path = {named}, public")
        looked_into = schema_fault(login, API)

    grant = f"GRANT USAGE ON SCHEMA {schema} TO {', '.join(ROLES)}"
    assert (by_default is None) == (named != '"$user"')
    assert looked_into == f"{API} may not use the schema {schema}: let its owner run {grant}"


def test_a_session_that_lost_its_role_on_the_way_is_not_used(database_url, monkeypatch):
    # As behind a pooler that passes by what a session asks for as it begins.
    monkeypatch.setattr(connection, "_conninfo", lambda url, **_options: url)

    with pytest.raises(psycopg.OperationalError, match="does not act as duebook_api"):
        connect(database_url, application_name="test", role=API)
    with (
        open_pool(database_url, application_name="test", size=1, role=API) as pool,
        pytest.raises(PoolTimeout),
        pool.connection(timeout=1),
    ):
        pass


def test_a_pool_hands_no_tenant_on(login_url, tenants):
    with open_pool(login_url(API), application_name="test", size=1, role=API) as pool:
        with pool.connection() as first, first.transaction():
            first.bind(tenants[0].id)
            assert _tenants_seen(first, "record") == 1
        with pool.connection() as second, second.transaction():
            assert _tenants_seen(second, "record") == 0
