"""Settings of the services: from the environment only, read once, all faults told together.

A key is read from ``NAME``, or from the file that ``NAME_FILE`` names. An empty value is no value.
docs/settings.md lists the keys as they are declared here (`make docs`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated, Any, Literal, get_type_hints

from environs import EnvValidationError, FileAwareEnv

from shared import setting_keys as keys
from shared.errors import Fault, InvalidInput
from shared.sealing import Sealer
from shared.setting_keys import Key, Network, Secret, Service

__all__ = ["KEYS", "Secret", "Service", "Settings", "read_settings", "traces_url"]

_DAY = 86_400
_API: tuple[Service, ...] = ("api",)
_SCANNER: tuple[Service, ...] = ("scanner",)
_WORKER: tuple[Service, ...] = ("worker",)
_API_AND_WORKER = _API + _WORKER
_SCANNER_AND_WORKER = _SCANNER + _WORKER
_ALL = _API + _SCANNER + _WORKER


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says: each field is the key of its name in capitals.

    They are read, and their faults told, in this order.
    """

    database_url: Annotated[
        Secret,
        keys.secret(
            _ALL,
            required_by=(*_ALL, "cli"),
            check=keys.is_database,
            values="`postgresql://…`",
            means="PostgreSQL 15 or newer, UTF8; standbys: [failover.md](failover.md)",
        ),
    ]
    amqp_url: Annotated[
        Secret | None,
        keys.secret(
            _SCANNER_AND_WORKER,
            check=keys.is_broker,
            values="`amqp(s)://…`",
            means="RabbitMQ 3.10 or newer, one host; none: PostgreSQL is the transport",
        ),
    ]
    redis_url: Annotated[
        Secret | None,
        keys.secret(
            _API_AND_WORKER,
            check=keys.is_redis,
            values="`redis(s)://…`, `unix://…`",
            means="remembers clicks and counts requests; none: it is done without",
        ),
    ]
    # None only outside the API.
    admin_token: Annotated[
        Secret | None, keys.secret(_API, required_by=_API, means="what `X-ADMIN-TOKEN` has to be")
    ]
    encryption_keys: Annotated[
        tuple[Secret, ...],
        keys.encryption_keys(
            _API_AND_WORKER,
            means="the first encrypts stored secrets, all decrypt ([secrets.md](secrets.md))",
        ),
    ]
    db_pool_size: Annotated[
        int,
        keys.number(
            4,
            (1, 100),
            _API_AND_WORKER,
            means="sessions of a pool; the API has four threads for each, a worker needs 5 more",
        ),
    ]
    redis_prefix: Annotated[
        str,
        keys.text(
            _API_AND_WORKER,
            default="duebook",
            check=keys.is_prefix,
            values="to 64 of `A-Za-z0-9_.:-`",
            means="with what its keys begin; each installation needs its own",
        ),
    ]
    click_ttl_seconds: Annotated[
        int,
        keys.number(
            7 * _DAY,
            (1, 366 * _DAY),
            _API_AND_WORKER,
            means="how long Redis remembers a click; the row in PostgreSQL stays",
        ),
    ]
    gateway_url: Annotated[
        str | None,
        keys.text(
            _WORKER,
            check=keys.is_callable,
            values="`http(s)://…`",
            means="where notify also hands its messages over; without a user part",
        ),
    ]
    api_host: Annotated[
        str, keys.text(_API, default="127.0.0.1", values="address", means="where the API listens")
    ]
    api_port: Annotated[int, keys.number(8000, (1, 65535), _API, means="its port")]
    public_url: Annotated[
        str,
        keys.public_address(
            "http://{api_host}:{api_port}",
            _API_AND_WORKER,
            means="where people reach the API: tracking links begin with it",
        ),
    ]
    health_host: Annotated[
        str,
        keys.text(
            _ALL,
            default="127.0.0.1",
            values="address",
            means="where health and metrics are answered",
        ),
    ]
    health_port: Annotated[int, keys.number(8080, (1, 65535), _ALL, means="their port")]
    log_format: Annotated[
        Literal["json", "console"],
        keys.choice("json", ("json", "console"), _ALL, means="how lines of the log look"),
    ]
    log_level: Annotated[
        str,
        keys.choice(
            "INFO",
            ("DEBUG", "INFO", "WARNING", "ERROR"),
            _ALL,
            means="at `DEBUG` a line for each run that ended",
        ),
    ]
    round_seconds: Annotated[
        int, keys.number(60, (1, 3600), _SCANNER, means="how often every table is walked at least")
    ]
    batch_size: Annotated[
        int,
        keys.number(
            500, (1, 10_000), _SCANNER, means="rows that a scanner announces at once for a queue"
        ),
    ]
    high_water: Annotated[
        int,
        keys.number(
            10_000,
            (1, 10_000_000),
            _SCANNER,
            means="unclaimed references that the broker is given at most",
        ),
    ]
    fire_batch: Annotated[
        int, keys.number(20, (1, 500), _SCANNER_AND_WORKER, means="references in one message")
    ]
    run_retention_days: Annotated[
        int,
        keys.number(
            90,
            (1, 36_500),
            _SCANNER,
            means="how long events, ended runs and actions are kept; the ledger stays",
        ),
    ]
    worker_roles: Annotated[
        tuple[str, ...],
        keys.several(
            ",".join(keys.WORKER_ROLES),
            _WORKER,
            check=keys.are_roles,
            values="one or both",
            means="its queues: `scheduled_action_fire`, `action_execute`",
        ),
    ]
    worker_threads: Annotated[
        int, keys.number(16, (1, 256), _WORKER, means="actions that a worker executes at once")
    ]
    max_retries: Annotated[
        int,
        keys.number(
            3,
            (0, 10),
            _WORKER,
            means="executions after the first, if actions fail for now; for `duebook doctor` too",
        ),
    ]
    lease_seconds: Annotated[
        int,
        keys.number(
            300,
            (1, 86_400),
            _WORKER,
            means="work not renewed so long is stale; more than the deadline + 5",
        ),
    ]
    renew_seconds: Annotated[
        int,
        keys.number(
            30,
            (1, 86_400),
            _WORKER,
            means="how often leases are renewed; at most a third of `LEASE_SECONDS`",
        ),
    ]
    action_deadline_seconds: Annotated[
        int, keys.number(20, (1, 3600), _WORKER, means="how long one outgoing call may take in all")
    ]
    grace_seconds: Annotated[
        int,
        keys.number(
            45,
            (1, 86_400),
            _SCANNER_AND_WORKER,
            means="how long a process may take to stop; at least the deadline + 15",
        ),
    ]
    allowed_networks: Annotated[
        tuple[Network, ...],
        keys.several(
            "",
            _WORKER,
            each=keys.read_network,
            values="such as `10.1.0.0/16`",
            means="networks that actions may call though they are not public",
        ),
    ]
    allowed_ports: Annotated[
        tuple[int, ...],
        keys.several(
            "80,443",
            _WORKER,
            each=keys.read_port,
            values="1 to 65535",
            means="ports that actions may call",
        ),
    ]
    max_body_bytes: Annotated[
        int, keys.number(2**20, (1, 2**30), _API, means="the largest request")
    ]
    max_bulk_bytes: Annotated[
        int, keys.number(2**24, (1, 2**30), _API, means="the largest upload of records")
    ]
    rate_limit: Annotated[
        int,
        keys.number(
            12_000,
            (0, 10_000_000),
            _API,
            means="requests of a tenant per minute, 1/6 at once; 0: no limit ([api.md](api.md))",
        ),
    ]
    refusal_limit: Annotated[
        int,
        keys.number(
            60,
            (0, 10_000_000),
            _API,
            means="refused tokens of an address per minute, ten at once; 0: no limit",
        ),
    ]
    max_waiting: Annotated[
        int,
        keys.number(
            1_000_000,
            (1, 1_000_000_000),
            _API,
            means="pending actions with which a tenant adds none ([limits.md](limits.md))",
        ),
    ]
    trusted_proxies: Annotated[
        int,
        keys.number(
            0,
            (0, 10),
            _API,
            means="proxies that each add to `X-Forwarded-For`; 0: the peer is the client",
        ),
    ]

    # Under the names that OpenTelemetry gives them; all others its SDK reads itself.
    otel_exporter_otlp_endpoint: Annotated[
        str | None,
        keys.text(
            _ALL,
            check=keys.is_callable,
            values="`http(s)://…`",
            means="takes traces; none: there are none ([tracing.md](tracing.md))",
        ),
    ]
    otel_exporter_otlp_traces_endpoint: Annotated[
        str | None,
        keys.text(
            _ALL,
            check=keys.is_callable,
            values="`http(s)://…`",
            means="the whole address, if not the above with `/v1/traces`",
        ),
    ]
    otel_exporter_otlp_headers: Annotated[
        Secret | None,
        keys.secret(
            _ALL,
            check=keys.are_headers,
            values="`name=value,…`",
            means="headers by which the collector knows us",
        ),
    ]
    otel_sdk_disabled: Annotated[
        str,
        keys.choice(
            "false", ("true", "false"), _ALL, means="true: no traces, whatever the others say"
        ),
    ]

    def sealer(self) -> Sealer:
        """Return what encrypts stored secrets, and reads them."""
        return Sealer(key.reveal() for key in self.encryption_keys)


KEYS: Mapping[str, Key] = {
    field.upper(): hint.__metadata__[0]
    for field, hint in get_type_hints(Settings, include_extras=True).items()
}


def read_settings(service: Service) -> Settings:
    """Return the settings of one service from the environment.

    Raises InvalidInput with one fault per key; a fault never repeats the value it is about.
    """
    env = _Environment(eager=False, strip_whitespace=True)
    values: dict[str, Any] = {}
    for name, key in KEYS.items():
        values[name.lower()] = key.value(env, name, service=service, known=values)
    try:
        env.seal()
    except EnvValidationError as error:
        raise _invalid(_faults_of(error)) from error
    settings = Settings(**values)
    if contradictions := [*_contradictions(settings), *_lacks(settings, service)]:
        raise _invalid(contradictions)
    return settings


def traces_url(settings: Settings) -> str | None:
    """Return where traces are sent to, None when there are none."""
    if settings.otel_sdk_disabled == "true":
        return None
    of_all = settings.otel_exporter_otlp_endpoint
    if of_all is not None and settings.otel_exporter_otlp_traces_endpoint is None:
        return f"{of_all.rstrip('/')}/v1/traces"
    return settings.otel_exporter_otlp_traces_endpoint


class _Environment(FileAwareEnv):
    """Empty means unset (charts and compose files write empty keys), for files too."""

    def _get_value(self, env_key: str, default: object) -> object:
        try:
            value: object = super()._get_value(env_key, default)
        except ValueError:
            self._errors[env_key].append(f"the file that {env_key}_FILE names cannot be read")
            return default
        return default if value == "" else value


def _contradictions(settings: Settings) -> Iterator[Fault]:
    """Yield the settings with which a worker could not keep what its lease promises."""
    deadline = settings.action_deadline_seconds
    if settings.lease_seconds <= deadline + 5:
        yield _fault("LEASE_SECONDS", "Must be more than ACTION_DEADLINE_SECONDS + 5.")
    if settings.renew_seconds * 3 > settings.lease_seconds:
        yield _fault("RENEW_SECONDS", "Must be at most a third of LEASE_SECONDS.")
    if settings.grace_seconds < deadline + 15:
        yield _fault("GRACE_SECONDS", "Must be at least ACTION_DEADLINE_SECONDS + 15.")


def _lacks(settings: Settings, service: Service) -> Iterator[Fault]:
    """Yield what is asked for and not installed; a command sends no traces."""
    if service == "cli" or traces_url(settings) is None:
        return
    if not _is_installed("opentelemetry.exporter.otlp.proto.http"):
        message = (
            "Traces need the extra otel: pip install 'duebook[otel]', in a checkout"
            " .venv/bin/pip install -r requirements/otel.txt."
        )
        yield _fault("OTEL_EXPORTER_OTLP_ENDPOINT", message)


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _faults_of(error: EnvValidationError) -> Iterator[Fault]:
    assert isinstance(error.error_messages, Mapping)  # a deferred reader tells them by key
    for name, messages in error.error_messages.items():
        for message in messages:
            yield _fault(name, str(message))


def _fault(name: str, message: str) -> Fault:
    return Fault(code="setting_invalid", pointer=f"/{name}", message=f"{name}: {message}")


def _invalid(faults: Iterator[Fault] | list[Fault]) -> InvalidInput:
    found = tuple(faults)
    lines = "\n".join(f"  {fault.message}" for fault in found)
    return InvalidInput(f"settings are not valid:\n{lines}", code="settings_invalid", faults=found)
