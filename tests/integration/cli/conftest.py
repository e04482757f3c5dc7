"""The command line against a real database, and against a real API served from this process."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner
from werkzeug.serving import make_server

from services.api.app import create_app
from services.api.dependencies import Parts, operator_sessions
from services.cli.main import main
from shared.db.clock import server_now
from shared.db.connection import open_pool
from shared.db.roles import API
from shared.sealing import Sealer
from shared.settings import Secret
from shared.tracking.click_store import PostgresClicks
from shared.usecases.tokens import create_tenant, issue_token

ADMIN_TOKEN = "the-operator"
_UNSET = dict.fromkeys(
    ("DATABASE_URL", "AMQP_URL", "ADMIN_TOKEN", "DUEBOOK_API", "DUEBOOK_TOKEN", "API_PORT")
)


class CommandLine:
    """Runs commands with nothing of ours in the environment but what it was given."""

    def __init__(self, **environment):
        self.environment = environment

    def run(self, *arguments):
        """Run a command in this process and return what came of it."""
        runner = CliRunner(env={**_UNSET, **self.environment})
        return runner.invoke(main, [str(argument) for argument in arguments])

    def run_apart(self, *arguments):
        """Run a command that sets up logging, in a process of its own."""
        return subprocess.run(
            [Path(sys.executable).with_name("duebook"), *map(str, arguments)],
            env={"PATH": os.environ["PATH"], **self.environment},
            capture_output=True,
            text=True,
            timeout=60,
        )

    def told(self, *arguments):
        """Run a command that has to end well and return the JSON that it told."""
        done = self.run(*arguments, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)


@pytest.fixture
def on_database(database_url):
    """The command line of an operator."""
    return CommandLine(DATABASE_URL=database_url)


@pytest.fixture
def tenant(conn):
    return create_tenant(
        conn, name="ours", key_secret=b"k" * 32, sealer=Sealer(), now=server_now(conn)
    )


@pytest.fixture
def api_url(database_url):
    """The address of an API that serves the database."""
    with open_pool(database_url, application_name="api", size=4, role=API) as pool:
        parts = Parts(
            sessions=pool.connection,
            operator_sessions=operator_sessions(database_url),
            admin_token=Secret(ADMIN_TOKEN),
            clicks=PostgresClicks(),
            public_url="http://api.example.com",
            max_body_bytes=2**20,
            max_bulk_bytes=2**24,
        )
        server = make_server("127.0.0.1", 0, create_app(parts), threaded=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        with structlog.testing.capture_logs():  # its log is no answer of a command
            yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def on_api(api_url, conn, tenant):
    """The command line of a tenant's moderator."""
    _, text = issue_token(
        conn,
        tenant_id=tenant.id,
        name="cli",
        role="moderator",
        channel_id=None,
        secret=b"t" * 32,
        now=server_now(conn),
    )
    return CommandLine(DUEBOOK_API=api_url, DUEBOOK_TOKEN=text)
