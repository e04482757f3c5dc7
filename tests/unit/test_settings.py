import re
import subprocess
import sys
from ipaddress import ip_network
from pathlib import Path

import pytest

from shared.domain.work import MAX_RETRIES
from shared.errors import InvalidInput
from shared.settings import KEYS, Secret, read_settings, traces_url
from tests.builders_sealed import NEW, NEW_KEY, OLD, OLD_KEY

_KEYS = (
    *("DATABASE_URL", "AMQP_URL", "ADMIN_TOKEN", "GATEWAY_URL", "LEASE_SECONDS", "RENEW_SECONDS"),
    *("REDIS_URL", "REDIS_PREFIX", "CLICK_TTL_SECONDS", "PUBLIC_URL", "API_HOST", "API_PORT"),
    "ENCRYPTION_KEYS",
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"),
)


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for key in _KEYS:
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("DATABASE_URL", "postgresql://duebook:pa55@db/duebook")


def _pointers(service="worker"):
    with pytest.raises(InvalidInput) as caught:
        read_settings(service)
    return {fault.pointer for fault in caught.value.faults}


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("ALLOWED_PORTS", "443,70000", "Must be ports from 1 to 65535."),
        ("ALLOWED_PORTS", "443,,80", "Must be ports from 1 to 65535."),
        ("ALLOWED_PORTS", "https", "Must be ports from 1 to 65535."),
        ("ALLOWED_NETWORKS", "10.0.0.0/8,ten", "Must be networks such as 10.1.0.0/16."),
        (
            "WORKER_ROLES",
            "trigger-worker,cook",
            "Must be one or more of: trigger-worker, action-worker.",
        ),
    ],
)
def test_a_fault_in_a_list_is_told_in_words(monkeypatch, key, value, told):
    monkeypatch.setenv(key, value)

    with pytest.raises(InvalidInput) as caught:
        read_settings("worker")

    assert [fault.message for fault in caught.value.faults] == [f"{key}: {told}"]


def test_only_the_database_is_needed_outside_the_api():
    settings = read_settings("worker")

    assert settings.database_url.reveal() == "postgresql://duebook:pa55@db/duebook"
    assert settings.amqp_url is None
    assert settings.worker_roles == ("trigger-worker", "action-worker")


def test_the_constants_of_the_life_cycle_have_their_defaults():
    settings = read_settings("worker")

    assert (settings.batch_size, settings.max_retries, settings.lease_seconds) == (500, 3, 300)
    assert settings.max_retries == MAX_RETRIES


def test_the_api_needs_an_admin_token(monkeypatch):
    assert _pointers("api") == {"/ADMIN_TOKEN"}

    monkeypatch.setenv("ADMIN_TOKEN", "root")
    assert read_settings("api").admin_token == Secret("root")


def test_all_faults_are_told_at_once(monkeypatch, tmp_path):
    monkeypatch.setenv("DATABASE_URL", "mysql://db")
    monkeypatch.setenv("AMQP_URL_FILE", str(tmp_path / "absent"))
    monkeypatch.setenv("WORKER_THREADS", "0")
    monkeypatch.setenv("FIRE_BATCH", "many")
    monkeypatch.setenv("WORKER_ROLES", "trigger-worker,cook")
    monkeypatch.setenv("ALLOWED_NETWORKS", "10.0.0.0/8,10.0.0.1/8")
    monkeypatch.setenv("ALLOWED_PORTS", "443,70000")
    monkeypatch.setenv("LOG_FORMAT", "xml")
    monkeypatch.setenv("GATEWAY_URL", "ftp://gateway")
    monkeypatch.setenv("REDIS_PREFIX", "two words")
    monkeypatch.setenv("ENCRYPTION_KEYS", f"{NEW_KEY},hunter2")

    assert _pointers() == {
        "/DATABASE_URL",
        "/AMQP_URL",
        "/WORKER_THREADS",
        "/FIRE_BATCH",
        "/WORKER_ROLES",
        "/ALLOWED_NETWORKS",
        "/ALLOWED_PORTS",
        "/LOG_FORMAT",
        "/GATEWAY_URL",
        "/REDIS_PREFIX",
        "/ENCRYPTION_KEYS",
    }


@pytest.mark.parametrize(
    ("lease", "renew", "deadline", "grace", "wrong"),
    [
        (300, 30, 20, 45, set()),
        (25, 5, 20, 45, {"/LEASE_SECONDS"}),
        (26, 5, 20, 45, set()),
        (300, 101, 20, 45, {"/RENEW_SECONDS"}),
        (300, 100, 20, 45, set()),
        (300, 30, 20, 34, {"/GRACE_SECONDS"}),
        (300, 30, 20, 35, set()),
        (20, 10, 20, 20, {"/LEASE_SECONDS", "/RENEW_SECONDS", "/GRACE_SECONDS"}),
    ],
)
def test_limits_that_break_the_lease_are_refused(monkeypatch, lease, renew, deadline, grace, wrong):
    monkeypatch.setenv("LEASE_SECONDS", str(lease))
    monkeypatch.setenv("RENEW_SECONDS", str(renew))
    monkeypatch.setenv("ACTION_DEADLINE_SECONDS", str(deadline))
    monkeypatch.setenv("GRACE_SECONDS", str(grace))

    if wrong:
        assert _pointers() == wrong
    else:
        assert read_settings("worker").lease_seconds == lease


def test_a_role_is_named_once(monkeypatch):
    monkeypatch.setenv("WORKER_ROLES", "action-worker,action-worker")

    assert _pointers() == {"/WORKER_ROLES"}


def test_an_empty_value_is_no_value(monkeypatch):
    monkeypatch.setenv("AMQP_URL", "")
    monkeypatch.setenv("WORKER_THREADS", "")
    monkeypatch.setenv("WORKER_ROLES", "")

    settings = read_settings("worker")

    assert settings.amqp_url is None
    assert settings.worker_threads == 16
    assert len(settings.worker_roles) == 2


def test_a_secret_can_come_from_a_file(monkeypatch, tmp_path):
    (tmp_path / "url").write_text("amqps://u:p@broker/v\n")
    monkeypatch.setenv("AMQP_URL_FILE", str(tmp_path / "url"))

    assert read_settings("worker").amqp_url == Secret("amqps://u:p@broker/v")


def test_secrets_show_in_no_text_about_them(monkeypatch):
    monkeypatch.setenv("AMQP_URL", "amqp://u:hunter2@broker")
    monkeypatch.setenv("ADMIN_TOKEN", "hunter2")

    settings = read_settings("api")

    assert "hunter2" not in f"{settings!r} {settings.amqp_url} {settings.amqp_url!r}"
    assert "pa55" not in repr(settings)


def test_a_refused_secret_is_not_repeated(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "hunter2")

    with pytest.raises(InvalidInput) as caught:
        read_settings("worker")

    assert "hunter2" not in caught.value.message


def test_the_first_of_several_keys_encrypts(monkeypatch):
    monkeypatch.setenv("ENCRYPTION_KEYS", f" {NEW_KEY} , {OLD_KEY}")

    settings = read_settings("worker")

    assert settings.sealer().current == NEW.current
    assert settings.sealer().open(OLD.seal(b"x")) == b"x"
    assert NEW_KEY not in f"{settings!r} {settings.encryption_keys}"


def test_without_keys_secrets_are_stored_in_the_clear():
    assert read_settings("worker").sealer().current is None


@pytest.mark.parametrize(
    "keys", ["hunter2", f"{NEW_KEY},hunter2", f"{NEW_KEY},", NEW_KEY + OLD_KEY, ","]
)
def test_keys_that_are_none_are_refused_and_not_repeated(monkeypatch, keys):
    monkeypatch.setenv("ENCRYPTION_KEYS", keys)

    with pytest.raises(InvalidInput) as caught:
        read_settings("worker")

    assert [fault.pointer for fault in caught.value.faults] == ["/ENCRYPTION_KEYS"]
    assert "hunter2" not in caught.value.message
    assert NEW_KEY not in caught.value.message


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:p@h1:5432,h2:5433/duebook?target_session_attrs=read-write",
        "postgresql://u:p@h1,h2/duebook",
        "postgres://[::1]:5432,h2:5432/duebook",
    ],
)
def test_a_database_may_have_several_hosts(monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url)

    assert read_settings("worker").database_url == Secret(url)


@pytest.mark.parametrize("url", ["postgresql:///duebook", "postgresql:h1", "amqp://h1"])
def test_a_database_without_a_host_is_refused(monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url)

    assert _pointers() == {"/DATABASE_URL"}


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://u:hunter2%zz@h1/duebook",
        "postgresql://u:hunter2 x@h1/duebook",
        "postgresql://u:hunter2@[::1:5432/duebook",
        "postgresql://h1/duebook?hunter2=1",
        "postgresql://h1/duebook?connect_timeout=hunter2",
    ],
)
def test_a_database_that_the_driver_cannot_read_is_refused_and_not_repeated(monkeypatch, url):
    monkeypatch.setenv("DATABASE_URL", url)

    with pytest.raises(InvalidInput) as caught:
        read_settings("worker")

    assert [fault.pointer for fault in caught.value.faults] == ["/DATABASE_URL"]
    assert "hunter2" not in caught.value.message


@pytest.mark.parametrize("hosts", ["h1,h2", "h1:5672,h2:5672"])
def test_a_broker_has_one_host(monkeypatch, hosts):
    monkeypatch.setenv("AMQP_URL", f"amqp://u:p,q@{hosts}/v")

    assert _pointers() == {"/AMQP_URL"}


@pytest.mark.parametrize("port", ["0", "65536", "x", "-1"])
@pytest.mark.parametrize(
    "key", ["AMQP_URL", "REDIS_URL", "GATEWAY_URL", "PUBLIC_URL", "OTEL_EXPORTER_OTLP_ENDPOINT"]
)
def test_a_port_that_is_none_is_refused_and_not_told(monkeypatch, key, port):
    scheme = {"AMQP_URL": "amqp", "REDIS_URL": "redis"}.get(key, "http")
    monkeypatch.setenv(key, f"{scheme}://host:{port}")

    with pytest.raises(InvalidInput) as caught:
        read_settings("worker")

    assert [fault.message for fault in caught.value.faults] == [
        f"{key}: Must have a port from 1 to 65535, or none."
    ]


def test_networks_and_ports_are_read_as_values(monkeypatch):
    monkeypatch.setenv("ALLOWED_NETWORKS", "10.1.0.0/16, fd00::/8")
    monkeypatch.setenv("ALLOWED_PORTS", "80,8443")

    settings = read_settings("worker")

    assert settings.allowed_networks == (ip_network("10.1.0.0/16"), ip_network("fd00::/8"))
    assert settings.allowed_ports == (80, 8443)


@pytest.mark.parametrize("url", ["https://user:pw@gateway", "ftp://gateway"])
def test_a_gateway_that_no_call_could_reach_is_refused(monkeypatch, url):
    monkeypatch.setenv("GATEWAY_URL", url)

    assert _pointers() == {"/GATEWAY_URL"}


@pytest.mark.parametrize(
    "url",
    ["redis://:pw@redis:6379/0", "rediss://redis", "unix:///run/redis.sock", "unix://u:pw@/r.sock"],
)
def test_redis_is_named_by_a_url(monkeypatch, url):
    monkeypatch.setenv("REDIS_URL", url)

    assert read_settings("worker").redis_url == Secret(url)


@pytest.mark.parametrize("url", ["redis", "redis://", "unix://", "http://redis", "redis://[", "x"])
def test_what_names_no_redis_is_refused(monkeypatch, url):
    monkeypatch.setenv("REDIS_URL", url)

    assert _pointers() == {"/REDIS_URL"}


def test_people_reach_the_api_where_it_listens_unless_told_otherwise(monkeypatch):
    monkeypatch.setenv("API_PORT", "8123")
    assert read_settings("worker").public_url == "http://127.0.0.1:8123"

    monkeypatch.setenv("PUBLIC_URL", "https://go.example.com/x/")
    assert read_settings("worker").public_url == "https://go.example.com/x"


@pytest.mark.parametrize(
    "url",
    [
        "example.com",
        "https://u:p@example.com",
        "https://example.com/?q",
        "https://ex/#f",
        "ftp://x",
    ],
)
def test_an_address_that_nobody_could_click_is_refused(monkeypatch, url):
    monkeypatch.setenv("PUBLIC_URL", url)

    assert _pointers() == {"/PUBLIC_URL"}


@pytest.mark.parametrize(
    ("of_all", "of_traces", "disabled", "url"),
    [
        ("", "", "", None),
        ("http://collector:4318", "", "", "http://collector:4318/v1/traces"),
        ("https://collector/otlp/", "", "false", "https://collector/otlp/v1/traces"),
        ("http://collector:4318", "http://other/traces", "", "http://other/traces"),
        ("http://collector:4318", "", "true", None),
    ],
)
def test_traces_are_sent_where_opentelemetrys_own_keys_say(
    monkeypatch, of_all, of_traces, disabled, url
):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", of_all)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", of_traces)
    monkeypatch.setenv("OTEL_SDK_DISABLED", disabled)

    assert traces_url(read_settings("worker")) == url


def test_what_a_collector_wants_to_be_told_is_a_secret(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=hunter2")
    assert "hunter2" not in repr(read_settings("worker"))

    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "hunter2")
    assert _pointers() == {"/OTEL_EXPORTER_OTLP_HEADERS"}


# Whoever is asked for the package does not have it, as where the extra is not installed.
_WITHOUT_THE_EXTRA = """
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hide())
from shared.errors import AppError
from shared.settings import read_settings
try:
    read_settings(sys.argv[1])
except AppError as error:
    sys.exit(error.message)
"""


@pytest.mark.parametrize("service", ["api", "scanner", "worker", "cli"])
def test_traces_without_their_extra_are_refused_where_they_would_be_sent(monkeypatch, service):
    monkeypatch.setenv("ADMIN_TOKEN", "root")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    command = [sys.executable, "-c", _WITHOUT_THE_EXTRA, service]

    done = subprocess.run(command, capture_output=True, text=True)

    if service == "cli":
        assert (done.returncode, done.stderr) == (0, "")
    else:
        assert done.returncode == 1
        assert "OTEL_EXPORTER_OTLP_ENDPOINT: Traces need the extra otel: pip" in done.stderr


def _read_in(*folders):
    root = Path(__file__).parents[2]
    texts = [path.read_text() for each in folders for path in (root / each).rglob("*.py")]
    read = {name for text in texts for name in re.findall(r"\b_?settings\.([a-z_]+)", text)}
    if "sealer" in read:
        read.add("encryption_keys")
    return read & {name.lower() for name in KEYS}


@pytest.mark.parametrize("service", ["api", "scanner", "worker"])
def test_a_process_reads_the_keys_that_are_told_to_be_its_own(service):
    own = {name.lower() for name, key in KEYS.items() if service in key.read_by}

    assert "database_url" in _read_in(f"services/{service}")
    assert _read_in(f"services/{service}") <= own
    assert own <= _read_in("services", "shared", "deploy")


def test_every_key_is_told_of():
    assert [name for name, key in KEYS.items() if not (key.means and key.values)] == []
    assert KEYS["ADMIN_TOKEN"].required_by == ("api",)


def test_a_link_says_the_page_it_leads_to_since_a_terminal_shows_that_alone():
    links = re.findall(r"\[(.+?)\]\((.+?)\)", " ".join(key.means for key in KEYS.values()))

    assert links
    assert [link for link in links if link[0] != link[1]] == []
