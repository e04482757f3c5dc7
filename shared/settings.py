"""Settings of the services: from the environment only, read once, all faults told together.

A key is read from ``NAME``, or from the file that ``NAME_FILE`` names. An empty value is no value.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal
from urllib.parse import urlsplit

from environs import EnvValidationError, FileAwareEnv, ValidationError, validate

from shared.errors import Fault, InvalidInput
from shared.sealing import Sealer

Service = Literal["api", "scanner", "worker", "cli"]
Network = IPv4Network | IPv6Network

WORKER_ROLES = ("trigger-worker", "action-worker")
_DAY = 86_400
_PREFIX = re.compile("[A-Za-z0-9_.:-]{1,64}")
_LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that shows itself to nobody but the caller of ``reveal``."""

    _text: str

    def reveal(self) -> str:
        """Return the text itself, for the one place that needs it."""
        return self._text

    def __repr__(self) -> str:
        return "***"

    __str__ = __repr__


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the environment says; every limit here has its default in ``read_settings``."""

    database_url: Secret
    db_pool_size: int
    amqp_url: Secret | None  # None: PostgreSQL is the transport
    redis_url: Secret | None  # None: clicks are remembered in PostgreSQL alone
    redis_prefix: str  # of all keys: several installations may share a Redis
    click_ttl_seconds: int
    admin_token: Secret | None  # None only outside the API
    encryption_keys: tuple[Secret, ...]  # of stored secrets; the first encrypts, all decrypt
    gateway_url: str | None  # None: notify stores the message and calls nobody

    api_host: str
    api_port: int
    public_url: str  # where people reach the API; no slash at its end
    health_host: str
    health_port: int
    log_format: Literal["json", "console"]
    log_level: str

    round_seconds: int
    batch_size: int
    high_water: int
    fire_batch: int
    run_retention_days: int

    worker_roles: tuple[str, ...]
    worker_threads: int
    max_retries: int
    lease_seconds: int
    renew_seconds: int
    action_deadline_seconds: int
    grace_seconds: int

    allowed_networks: tuple[Network, ...]
    allowed_ports: tuple[int, ...]
    max_body_bytes: int
    max_bulk_bytes: int
    rate_limit: int  # requests of a tenant per minute; 0: no limit
    refusal_limit: int  # refused tokens of an address per minute; 0: no limit
    max_waiting: int  # scheduled actions of a tenant that may be pending before it adds more
    trusted_proxies: int  # how many in front of the API each add to X-Forwarded-For

    def sealer(self) -> Sealer:
        """Return what encrypts stored secrets, and reads them."""
        return Sealer(key.reveal() for key in self.encryption_keys)


def read_settings(service: Service) -> Settings:
    """Return the settings of one service from the environment.

    Raises InvalidInput with one fault per key; a fault never repeats the value it is about.
    """
    env = _Environment(eager=False, strip_whitespace=True)
    values = _read(env, service)
    try:
        env.seal()
    except EnvValidationError as error:
        raise _invalid(_faults_of(error)) from error
    settings = Settings(**values)
    if contradictions := list(_contradictions(settings)):
        raise _invalid(contradictions)
    return settings


class _Environment(FileAwareEnv):
    """Empty means unset (charts and compose files write empty keys), for files too."""

    def _get_value(self, env_key: str, default: object) -> object:
        try:
            value: object = super()._get_value(env_key, default)
        except ValueError:
            self._errors[env_key].append(f"the file that {env_key}_FILE names cannot be read")
            return default
        return default if value == "" else value


def _read(env: FileAwareEnv, service: Service) -> dict[str, Any]:
    database_url = env.str("DATABASE_URL", validate=_begins_with("postgresql", "postgres"))
    amqp_url = env.str("AMQP_URL", None, validate=_begins_with("amqp", "amqps"))
    redis_url = env.str("REDIS_URL", None, validate=_is_redis)
    admin_token = env.str("ADMIN_TOKEN") if service == "api" else env.str("ADMIN_TOKEN", None)
    keys = env.list("ENCRYPTION_KEYS", [], subcast=str.strip, validate=_are_encryption_keys)
    return {
        "database_url": _secret(database_url),
        "db_pool_size": env.int("DB_POOL_SIZE", 4, validate=_between(1, 100)),
        "amqp_url": _secret(amqp_url),
        "redis_url": _secret(redis_url),
        "redis_prefix": env.str("REDIS_PREFIX", "duebook", validate=_is_prefix),
        "click_ttl_seconds": env.int(
            "CLICK_TTL_SECONDS", 7 * _DAY, validate=_between(1, 366 * _DAY)
        ),
        "admin_token": _secret(admin_token),
        "encryption_keys": tuple(Secret(key) for key in keys or ()),
        "gateway_url": env.str("GATEWAY_URL", None, validate=_is_callable),
        **_read_addresses(env),
        "health_host": env.str("HEALTH_HOST", "127.0.0.1"),
        "health_port": env.int("HEALTH_PORT", 8080, validate=_between(1, 65535)),
        "log_format": env.str("LOG_FORMAT", "json", validate=validate.OneOf(["json", "console"])),
        "log_level": env.str("LOG_LEVEL", "INFO", validate=validate.OneOf(_LOG_LEVELS)),
        "round_seconds": env.int("ROUND_SECONDS", 60, validate=_between(1, 3600)),
        "batch_size": env.int("BATCH_SIZE", 500, validate=_between(1, 10_000)),
        "high_water": env.int("HIGH_WATER", 10_000, validate=_between(1, 10_000_000)),
        "fire_batch": env.int("FIRE_BATCH", 20, validate=_between(1, 500)),
        "run_retention_days": env.int("RUN_RETENTION_DAYS", 90, validate=_between(1, 36_500)),
        **_read_worker(env),
        **_read_limits(env),
    }


def _read_addresses(env: FileAwareEnv) -> dict[str, Any]:
    host = env.str("API_HOST", "127.0.0.1")
    port = env.int("API_PORT", 8000, validate=_between(1, 65535))
    public_url = env.str("PUBLIC_URL", f"http://{host}:{port}", validate=_is_public)
    return {"api_host": host, "api_port": port, "public_url": (public_url or "").rstrip("/")}


def _read_worker(env: FileAwareEnv) -> dict[str, Any]:
    roles = env.list("WORKER_ROLES", list(WORKER_ROLES), validate=_are_roles)
    return {
        "worker_roles": tuple(roles or ()),
        "worker_threads": env.int("WORKER_THREADS", 16, validate=_between(1, 256)),
        "max_retries": env.int("MAX_RETRIES", 3, validate=_between(0, 10)),
        "lease_seconds": env.int("LEASE_SECONDS", 300, validate=_between(1, 86_400)),
        "renew_seconds": env.int("RENEW_SECONDS", 30, validate=_between(1, 86_400)),
        "action_deadline_seconds": env.int(
            "ACTION_DEADLINE_SECONDS", 20, validate=_between(1, 3600)
        ),
        "grace_seconds": env.int("GRACE_SECONDS", 45, validate=_between(1, 86_400)),
    }


def _read_limits(env: FileAwareEnv) -> dict[str, Any]:
    networks = env.list("ALLOWED_NETWORKS", [], subcast=_read_network)
    ports = env.list("ALLOWED_PORTS", [80, 443], subcast=int, validate=_are_ports)
    return {
        "allowed_networks": tuple(networks or ()),
        "allowed_ports": tuple(ports or ()),
        "max_body_bytes": env.int("MAX_BODY_BYTES", 2**20, validate=_between(1, 2**30)),
        "max_bulk_bytes": env.int("MAX_BULK_BYTES", 2**24, validate=_between(1, 2**30)),
        "rate_limit": env.int("RATE_LIMIT", 12_000, validate=_between(0, 10_000_000)),
        "refusal_limit": env.int("REFUSAL_LIMIT", 60, validate=_between(0, 10_000_000)),
        "max_waiting": env.int("MAX_WAITING", 1_000_000, validate=_between(1, 1_000_000_000)),
        "trusted_proxies": env.int("TRUSTED_PROXIES", 0, validate=_between(0, 10)),
    }


def _between(low: int, high: int) -> validate.Range:
    return validate.Range(min=low, max=high)


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)


def _begins_with(*schemes: str) -> Callable[[str], None]:
    def check(text: str) -> None:
        try:
            parts = urlsplit(text)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in schemes or not parts.netloc:
            raise ValidationError(f"Must be a URL that begins with {schemes[0]}://.")

    return check


def _is_callable(text: str) -> None:
    """A user part would make every call fail, and would be told in the clear."""
    _begins_with("http", "https")(text)
    if "@" in urlsplit(text).netloc:
        raise ValidationError("Must not name a user or password.")


def _is_public(text: str) -> None:
    """People click what is made of it: nothing may follow the path."""
    _is_callable(text)
    parts = urlsplit(text)
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable():
        raise ValidationError("Must be a URL without a query, such as https://example.com.")


def _is_redis(text: str) -> None:
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    place = {"redis": parts.netloc, "rediss": parts.netloc, "unix": parts.path}
    if not place.get(parts.scheme):
        raise ValidationError("Must be a URL that begins with redis://, rediss:// or unix://.")


def _is_prefix(text: str) -> None:
    if not _PREFIX.fullmatch(text):
        raise ValidationError("Must be up to 64 letters, digits, and characters of -_.:")


def _are_encryption_keys(keys: list[str]) -> None:
    try:
        Sealer(keys)
    except ValueError:
        reason = "Must be keys of 32 bytes in URL-safe base64, separated by commas."
        raise ValidationError(reason) from None


def _are_roles(roles: list[str]) -> None:
    if not roles or not set(roles) <= set(WORKER_ROLES):
        raise ValidationError(f"Must be one or more of: {', '.join(WORKER_ROLES)}.")


def _are_ports(ports: list[int]) -> None:
    if not all(1 <= port <= 65535 for port in ports):
        raise ValidationError("Must be ports from 1 to 65535.")


def _read_network(text: str) -> Network:
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ValidationError("Must be networks such as 10.1.0.0/16.") from error


def _contradictions(settings: Settings) -> Iterator[Fault]:
    """Yield the settings with which a worker could not keep what its lease promises."""
    deadline = settings.action_deadline_seconds
    if settings.lease_seconds <= deadline + 5:
        yield _fault("LEASE_SECONDS", "Must be more than ACTION_DEADLINE_SECONDS + 5.")
    if settings.renew_seconds * 3 > settings.lease_seconds:
        yield _fault("RENEW_SECONDS", "Must be at most a third of LEASE_SECONDS.")
    if settings.grace_seconds < deadline + 15:
        yield _fault("GRACE_SECONDS", "Must be at least ACTION_DEADLINE_SECONDS + 15.")


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
