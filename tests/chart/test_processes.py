"""The rendered documents start real processes: their commands, environments, ports and probes."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
import urllib3

from services.cli.children import Child
from services.cli.embedded_postgres import free_port
from shared.db.roles import API, SCANNER, WORKER
from shared.lifecycle import wait_until
from tests.architecture.source import ROOT
from tests.builders_sealed import NEW_KEY
from tests.chart.charts import by_component, container_of, pod_of, ports_of, render
from tests.servers.tls import a_certificate, tls_before

_PROFILES = ("main", "cron-scheduler", "trigger-worker", "action-worker")
_ALL_SERVERS = (
    '--set-json=profiles.main.secret.keys=["DATABASE_URL","ADMIN_TOKEN","REDIS_URL","ENCRYPTION_KEYS"]',
    '--set-json=profiles.cron-scheduler.secret.keys=["DATABASE_URL","AMQP_URL"]',
    '--set-json=profiles.trigger-worker.secret.keys=["DATABASE_URL","AMQP_URL","REDIS_URL","ENCRYPTION_KEYS"]',
    '--set-json=profiles.action-worker.secret.keys=["DATABASE_URL","AMQP_URL","REDIS_URL","ENCRYPTION_KEYS"]',
)


class _Pod:
    """A process as a document says, with a folder for what would be mounted."""

    def __init__(self, document, *, secrets, folder):
        self.document = document
        self._container = container_of(document)
        self._log = folder / "log"
        self._mount(folder, secrets)
        # In the image the project is the working directory and its programs are in PATH.
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        with self._log.open("wb") as log:
            self._child = Child(
                ["sh", "-c", 'cd "$0" && exec "$@"', ROOT, *self._container["command"]],
                environment={"PATH": programs, **self._environment(folder, secrets)},
                output=log,
            )

    def _mount(self, folder, secrets):
        for volume in pod_of(self.document)["volumes"]:
            for item in volume.get("secret", {}).get("items", []):
                secret = secrets[volume["secret"]["secretName"]]
                path = folder / self._mount_path(volume["name"]).lstrip("/") / item["path"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(secret[item["key"]])

    def _mount_path(self, volume):
        [path] = [m["mountPath"] for m in self._container["volumeMounts"] if m["name"] == volume]
        return path

    def _environment(self, folder, secrets):
        values = {}
        for item in self._container["env"]:
            if reference := item.get("valueFrom", {}).get("secretKeyRef"):
                values[item["name"]] = secrets[reference["name"]][reference["key"]]
            elif item["name"].endswith("_FILE"):
                values[item["name"]] = f"{folder}{item['value']}"
            else:
                values[item["name"]] = item["value"]
        return values

    def passes(self, kind):
        """Whether a probe of this kind would be passed just now."""
        probe = self._container[f"{kind}Probe"]["httpGet"]
        return self.get(probe["port"], probe["path"]) == 200

    def get(self, port, path):
        """Ask a named port and return the status, None if nobody answers."""
        url = f"http://127.0.0.1:{ports_of(self.document)[port]}{path}"
        try:
            return urllib3.request("GET", url, retries=False, timeout=5.0).status
        except urllib3.exceptions.HTTPError:
            return None

    def wait_for(self, kind):
        """Wait for a probe that the cluster would repeat as often as the document says."""
        probe = self._container[f"{kind}Probe"]
        seconds = probe["periodSeconds"] * max(probe["failureThreshold"], 12)
        assert wait_until(lambda: self.passes(kind), seconds=seconds, every_seconds=0.05), (
            self.log()
        )

    def end(self):
        """End it as a cluster would and return its exit status; -9 is that of a kill."""
        seconds = pod_of(self.document)["terminationGracePeriodSeconds"]
        return self._child.stop(seconds=seconds)

    def end_of_itself(self, *, seconds):
        """Wait for its own end and return its exit status, None if there is none."""
        return self._child.wait(seconds=seconds)

    def kill(self):
        self._child.kill()

    def log(self):
        return self._log.read_text(errors="replace")[-3000:]


@pytest.fixture
def start(tmp_path):
    """Starts what a document says, with the secrets of the cluster."""
    pods = []

    def begin(document, secrets):
        folder = tmp_path / str(len(pods))
        folder.mkdir()
        pods.append(_Pod(document, secrets=secrets, folder=folder))
        return pods[-1]

    yield begin
    for pod in pods:
        pod.kill()


@pytest.fixture
def secrets(login_url, database_url):
    """The Secrets that the page tells to make: for each process, one of its own login."""
    return {
        "duebook-main": {"DATABASE_URL": login_url(API), "ADMIN_TOKEN": "the-operator"},
        "duebook-cron-scheduler": {"DATABASE_URL": login_url(SCANNER)},
        "duebook-trigger-worker": {"DATABASE_URL": login_url(WORKER)},
        "duebook-action-worker": {"DATABASE_URL": login_url(WORKER)},
        "duebook-migrate": {"DATABASE_URL": database_url},
    }


def _rendered(*options):
    """The documents with free ports, since all the pods are on one machine here."""
    ports = [f"--set=profiles.{name}.settings.HEALTH_PORT={free_port()}" for name in _PROFILES]
    return render(*options, *ports, f"--set=profiles.main.settings.API_PORT={free_port()}")


def _assert_runs(documents, secrets, start):
    pods = [start(doc, secrets) for doc in by_component(documents, "Deployment").values()]
    assert len(pods) == len(_PROFILES)
    for pod in pods:
        for kind in ("startup", "readiness", "liveness"):
            pod.wait_for(kind)
        assert pod.get("health", "/metrics") == 200
    [api] = [pod for pod in pods if "http" in ports_of(pod.document)]
    assert api.get("http", "/openapi.json") == 200
    with ThreadPoolExecutor() as together:
        ends = list(together.map(_Pod.end, pods))
    assert ends == [0] * len(pods), "\n".join(pod.log() for pod in pods)


def test_with_every_server_and_secrets_in_files(secrets, start, rabbit_url, redis_url):
    for secret in secrets.values():
        secret |= {"AMQP_URL": rabbit_url, "REDIS_URL": redis_url, "ENCRYPTION_KEYS": NEW_KEY}

    _assert_runs(_rendered(*_ALL_SERVERS), secrets, start)


def test_with_servers_of_an_authority_of_our_own(secrets, start, tmp_path, rabbit_url, redis_url):
    certificate = a_certificate(tmp_path)
    secrets["company"] = {"ca.crt": certificate[0].read_text()}
    with ExitStack() as stack:

        def safe(url):
            return stack.enter_context(tls_before(url, certificate))

        amqp_url, redis_url = safe(rabbit_url), safe(redis_url)
        for name, secret in secrets.items():
            if name != "company":
                asked = f"?sslmode=verify-full&sslrootcert={certificate[0]}"
                secret["DATABASE_URL"] = safe(secret["DATABASE_URL"]) + asked
                secret |= {"AMQP_URL": amqp_url, "REDIS_URL": redis_url, "ENCRYPTION_KEYS": NEW_KEY}

        documents = _rendered(*_ALL_SERVERS, "--set=certificateAuthorities.secret=company")
        _assert_runs(documents, secrets, start)


def test_a_server_of_an_unknown_authority_is_not_taken(secrets, start, tmp_path, rabbit_url):
    certificate = a_certificate(tmp_path)
    with tls_before(rabbit_url, certificate) as amqp_url:
        for secret in secrets.values():
            secret |= {"AMQP_URL": amqp_url, "REDIS_URL": "redis://127.0.0.1:1"}
        scanner = by_component(_rendered(*_ALL_SERVERS), "Deployment")["cron-scheduler"]

        pod = start(scanner, secrets)

        assert wait_until(lambda: "CERTIFICATE_VERIFY_FAILED" in pod.log(), seconds=60)
        assert not pod.passes("readiness")


def test_with_postgresql_alone_and_secrets_in_the_environment(secrets, start):
    _assert_runs(_rendered("--set=secretsAs=environment"), secrets, start)


def test_the_migration_brings_an_empty_database_up(secrets, start, empty_database_url):
    secrets["duebook-migrate"]["DATABASE_URL"] = empty_database_url
    [job] = by_component(_rendered(), "Job").values()

    pod = start(job, secrets)

    assert pod.end_of_itself(seconds=60) == 0, pod.log()
