"""A whole installation as real processes, seen as its users see it: HTTP, command line, rows."""

import json
import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.lifecycle import wait_until

ROOT = Path(__file__).parents[2]
SECONDS = 90.0
ADMIN_TOKEN = "the-operator"

_MODULES = {
    "api": ["gunicorn", "-c", ROOT / "deploy/gunicorn.conf.py", "services.api.wsgi:app"],
    "scanner": ["services.scanner"],
    "worker": ["services.worker"],
}


class Installation:
    """Processes over one database and, with ``amqp_url``, one broker.

    ``logins`` are the URLs of services that have a login of their own; commands take the owner's.
    """

    def __init__(self, *, database_url, amqp_url, logs, logins=None, **settings):
        self._logs = logs
        self._logins = logins or {}
        self._started = []
        self.patience_seconds = SECONDS
        self.api_url = f"http://127.0.0.1:{free_port()}"
        self.environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("DUEBOOK")},
            "DATABASE_URL": database_url,
            "AMQP_URL": amqp_url or "",
            "ADMIN_TOKEN": ADMIN_TOKEN,
            "API_PORT": self.api_url.rpartition(":")[2],
            "DUEBOOK_API": self.api_url,
            "WORKER_THREADS": "4",
            "ACTION_DEADLINE_SECONDS": "10",
            "GRACE_SECONDS": "25",
            "ALLOWED_NETWORKS": "127.0.0.0/8",
            **settings,
        }

    def start(self, service, *, arguments=None, **settings):
        """Start a process of a service and return it."""
        environment = self.environment | {"HEALTH_PORT": str(free_port())}
        if service in self._logins:
            environment["DATABASE_URL"] = self._logins[service]
        with (self._logs / f"{len(self._started):02}-{service}.log").open("wb") as log:
            child = Child(
                [sys.executable, "-m", *(arguments or _MODULES[service])],
                environment=environment | settings,
                output=log,
            )
        self._started.append(child)
        return child

    def stop(self):
        """End every process, whatever state it is in."""
        for child in self._started:
            child.kill()

    def logs(self):
        """What the processes wrote, for the message of a test that fails."""
        return "\n".join(
            f"== {path.name}\n{path.read_text(errors='replace')[-2000:]}"
            for path in sorted(self._logs.glob("*.log"))
        )

    def wait(self, condition, *, every_seconds=0.05):
        """Wait until the condition holds; what was logged tells why it does not."""
        seconds = self.patience_seconds
        assert wait_until(condition, seconds=seconds, every_seconds=every_seconds), self.logs()

    def status_of(self, child):
        """Wait for the end of a process and return its exit status."""
        self.wait(lambda: child.poll() is not None)
        return child.poll()

    def answers(self):
        """Whether the API does."""
        try:
            return self.request("GET", "/docs").status == 200
        except urllib3.exceptions.HTTPError:
            return False

    def request(self, method, path, body=None, **headers):
        """Send a request and return the answer."""
        return urllib3.request(
            method,
            self.api_url + path,
            body=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json", **headers},
            retries=False,
            timeout=30.0,
        )

    def duebook(self, *arguments):
        """Run a command to its end and return what came of it."""
        return subprocess.run(
            [Path(sys.executable).with_name("duebook"), *map(str, arguments)],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )

    def told(self, *arguments):
        """Run a command that has to end well and return the JSON that it told."""
        done = self.duebook(*arguments, "--json")
        assert done.returncode == 0, f"{done.stdout}{done.stderr}\n{self.logs()}"
        return json.loads(done.stdout)

    def verify(self):
        """Have every invariant asked for; what should have happened by now has happened."""
        return self.told("doctor", "--verify", "--grace", 0)


class Workspace:
    """A tenant of an installation, and the holder of a moderator's token in it."""

    def __init__(self, installation):
        self._installation = installation
        admin = {"X-ADMIN-TOKEN": ADMIN_TOKEN}
        tenant = self._call("POST", "/root/tenants", {"name": str(uuid4())}, admin)
        token = self._call(
            "POST", f"/v1/tokens?tenant={tenant['id']}", {"name": "e2e", "role": "moderator"}, admin
        )["token"]
        self._bearer = {"Authorization": f"Bearer {token}"}
        installation.environment["DUEBOOK_TOKEN"] = token

    def move_to(self, installation):
        """Go on at another installation, which has the tenant and the token as well."""
        self._installation = installation

    def call(self, method, path, body=None):
        """Call the API as the token's holder; the answer has to be a good one."""
        return self._call(method, path, body, self._bearer)

    def request(self, method, path, body=None, **headers):
        """Send a request as the token's holder and return the answer, whatever it is."""
        return self._installation.request(method, path, body, **self._bearer, **headers)

    def make_table(self, name, **columns):
        """Make a table with columns of these types and return its id."""
        written = [{"name": column, "type": type} for column, type in columns.items()]
        path = "/tenant/custom-tables/tables"
        return self.call("POST", path, {"name": name, "columns": written})["id"]

    def make_record(self, table, **data):
        """Make a record and return its id."""
        path = f"/tenant/custom-tables/tables/{table}/records"
        return self.call("POST", path, {"data": data})["id"]

    def is_written(self, table, key):
        """Make a record under a key and tell whether that was answered with success."""
        path = f"/tenant/custom-tables/tables/{table}/records"
        try:
            answer = self.request("POST", path, {"data": {}}, **{"Idempotency-Key": key})
        except urllib3.exceptions.HTTPError:
            return False
        return answer.status == 201

    def records(self, table):
        """The cells of the oldest live records of a table."""
        path = f"/tenant/custom-tables/tables/{table}/records"
        return [item["data"] for item in self.call("GET", path)["items"]]

    def set_triggers(self, table, *triggers):
        """Set the triggers of a table."""
        path = f"/tenant/custom-tables/tables/{table}/triggers"
        return self.call("PUT", path, {"triggers": list(triggers)})["triggers"]

    def messages(self, chatroom):
        """The newest messages of a chatroom."""
        path = f"/v1/chatrooms/{chatroom}/messages"
        return [item["message"] for item in self.call("GET", path)["items"]]

    def _call(self, method, path, body, headers):
        answer = self._installation.request(method, path, body, **headers)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.data.decode()}"
        return json.loads(answer.data) if answer.data else None


def notify(message, *, chatroom):
    return {"type": "notify", "chatroom_id": chatroom, "message": message}


def scheduled(schedule, *actions, **more):
    return {"on": "schedule", "schedule": schedule, "actions": list(actions), **more}
