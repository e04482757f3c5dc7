"""With encryption keys no secret stands anywhere in the clear but in the call that needs it."""

from base64 import b64decode, b64encode, urlsafe_b64encode

import pytest
from psycopg.sql import SQL, Identifier
from standardwebhooks.webhooks import Webhook

from shared.db.connection import connect
from tests.e2e.installation import Workspace

_OLD, _NEW = (urlsafe_b64encode(letter * 32).decode() for letter in (b"o", b"n"))
_CANARY, _PLAIN = "canary-7f3a9c0d", "plain-51b2e8"
_TABLES = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
)


@pytest.fixture
def dump(database_url, postgres_process):
    """Returns what a backup of the database has in it."""

    def copy():
        url = postgres_process.server.url(database_url.rpartition("/")[2])
        parts = []
        with connect(url, application_name="dump") as conn:
            for (table,) in conn.execute(_TABLES).fetchall():
                statement = SQL("COPY {} TO STDOUT").format(Identifier(table))
                with conn.cursor() as cursor, cursor.copy(statement) as rows:
                    parts += map(bytes, rows)
        return b"".join(parts)

    return copy


def _spellings(secret):
    """Return how a secret would look in a dump or a log that has it in the clear."""
    return [secret, secret.hex().encode(), b64encode(secret)]


def test_what_signs_is_nowhere_in_the_clear(install, database_url, dump, receiver):
    installation = install(None, ENCRYPTION_KEYS=_OLD)
    installation.start("api")
    installation.start("scanner")
    worker = installation.start("worker")
    installation.wait(installation.answers)
    workspace = Workspace(installation)
    text = workspace.call("POST", "/v1/signing-keys")["secret"]
    secret = b64decode(text.removeprefix("whsec_"))
    table = workspace.make_table("cases", title="text")
    hook = {"type": "webhook", "url": f"{receiver.url}/in"}
    workspace.set_triggers(table, {"on": "record_created", "actions": [hook]})

    workspace.make_record(table, title="first")
    installation.wait(lambda: len(receiver.requests) == 1)
    installation.environment["ENCRYPTION_KEYS"] = f"{_NEW},{_OLD}"
    rotated = installation.told("secrets", "rotate")
    worker.stop()
    installation.start("worker")
    workspace.make_record(table, title="second")
    installation.wait(lambda: len(receiver.requests) == 2)

    assert rotated == {"encrypted": 2, "unreadable": 0}
    for request in receiver.requests:
        assert Webhook(text).verify(request.body, request.headers)
    shown = dump() + installation.logs().encode()
    assert b"second" in shown
    assert [one for one in _spellings(secret) if one in shown] == []


def test_what_headers_name_is_in_the_call_and_nowhere_else(install, dump, receiver, tmp_path):
    installation = install(None, ENCRYPTION_KEYS=_NEW, LOG_LEVEL="DEBUG")
    for service in ("api", "scanner", "worker"):
        installation.start(service)
    installation.wait(installation.answers)
    workspace = Workspace(installation)
    workspace.call("PUT", "/v1/secrets/crm_token", {"value": _CANARY})
    header = {"secret": "crm_token", "prefix": "Bearer "}
    call = {"type": "api_call", "method": "POST", "url": receiver.url}
    call |= {"headers": {"Authorization": header, "X-Plain": _PLAIN}, "on_error": "continue"}
    hook = {"type": "webhook", "url": receiver.url, "headers": {"X-Key": header}}
    table = workspace.make_table("cases", title="text")
    [saved] = workspace.set_triggers(table, {"on": "record_created", "actions": [call, hook]})
    receiver.answers = [(401, {}, f"no such token: {_CANARY}".encode()), (200, {}, b"")]

    workspace.make_record(table, title="first")
    runs = f"/tenant/custom-tables/tables/{table}/trigger-runs"
    installation.wait(lambda: len(receiver.requests) == 2)
    installation.wait(lambda: workspace.call("GET", runs)["items"][0]["status"] == "failed")

    sent = [request.headers for request in receiver.requests]
    assert sent[0]["authorization"] == sent[1]["x-key"] == f"Bearer {_CANARY}"
    run = workspace.call("GET", f"{runs}/{workspace.call('GET', runs)['items'][0]['id']}")
    assert run["error"] == "action 1 (api_call): answered 401: no such token: ***"
    assert saved["actions"][0]["headers"]["Authorization"] == header
    exported = installation.duebook("export")
    listed = installation.told("secrets")
    assert [one["name"] for one in listed] == ["crm_token"]
    logs = "".join(path.read_text() for path in tmp_path.glob("*.log"))
    assert "work_failed" in logs
    assert _PLAIN not in logs
    shown = dump() + f"{logs}{exported.stdout}{run}{listed}".encode()
    assert b"crm_token" in shown
    assert [one for one in _spellings(_CANARY.encode()) if one in shown] == []
