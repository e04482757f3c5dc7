"""Installations of real processes, over each transport."""

import pytest

from shared.db.roles import API, SCANNER, WORKER
from tests.e2e.installation import Installation, Workspace
from tests.integration.actions.receivers import a_receiver

# The clock is not ours to move; the row that says when a cron trigger was saved is.
_CRON_SAVED_EARLIER = """
UPDATE trigger_state
SET anchor_at = anchor_at - interval '2 min', next_due_at = clock_timestamp()
WHERE kind = 'cron'
"""


@pytest.fixture(params=["postgresql", "rabbitmq"])
def amqp_url(request):
    """The broker of an installation, None where PostgreSQL is the transport."""
    return request.getfixturevalue("rabbit_url") if request.param == "rabbitmq" else None


@pytest.fixture
def receiver():
    """Somebody outside, whom the workers may call."""
    with a_receiver() as running:
        yield running


@pytest.fixture
def install(database_url, login_url, tmp_path, receiver):
    """Makes an installation; its processes are the test's to start.

    Each service has a login of its own, as in a large installation: what only the owner of the
    tables may see or do fails here.
    """
    made = []
    logins = {"api": login_url(API), "scanner": login_url(SCANNER), "worker": login_url(WORKER)}

    def make(amqp_url, **settings):
        installation = Installation(
            database_url=database_url,
            amqp_url=amqp_url,
            logs=tmp_path,
            logins=None if "DATABASE_URL" in settings else logins,
            **{"ALLOWED_PORTS": str(receiver.port), **settings},
        )
        made.append(installation)
        return installation

    yield make
    for installation in made:
        installation.stop()


@pytest.fixture
def install_over(tmp_path, receiver):
    """Makes an installation over a database that a test has; its processes are the test's."""
    made = []

    def make(database_url, amqp_url=None, **settings):
        logs = tmp_path / f"installation-{len(made)}"
        logs.mkdir()
        settings = {"ALLOWED_PORTS": str(receiver.port), **settings}
        made.append(
            Installation(database_url=database_url, amqp_url=amqp_url, logs=logs, **settings)
        )
        return made[-1]

    yield make
    for installation in made:
        installation.stop()


@pytest.fixture
def running(install, amqp_url):
    """An installation of an API, two scanners and two workers."""
    return _start(install(amqp_url))


def _start(installation):
    for service in ("api", "scanner", "scanner", "worker", "worker"):
        installation.start(service)
    installation.wait(installation.answers)
    return installation


@pytest.fixture
def workspace(running):
    return Workspace(running)


@pytest.fixture
def make_cron_due(conn):
    """Makes the latest minute a window of the cron triggers."""
    return lambda: conn.execute(_CRON_SAVED_EARLIER)
