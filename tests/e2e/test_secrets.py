"""With encryption keys no secret stands anywhere in the clear but in the call that needs it."""

from base64 import b64decode, b64encode, urlsafe_b64encode

import pytest
from psycopg.sql import SQL, Identifier
from standardwebhooks.webhooks import Webhook

from shared.db.connection import connect
from tests.e2e.installation import Workspace

_OLD, _NEW = (urlsafe_b64encode(letter * 32).decode() for letter in (b"o", b"n"))
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
