"""The kinds of settings: how a key is read from the environment, and what people are told of it."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Literal
from urllib.parse import urlsplit

from environs import FileAwareEnv, ValidationError, validate
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, timeout_from_conninfo

from shared.sealing import Sealer

Service = Literal["api", "scanner", "worker", "cli"]
Network = IPv4Network | IPv6Network

WORKER_ROLES = ("trigger-worker", "action-worker")
_PREFIX = re.compile("[A-Za-z0-9_.:-]{1,64}")
_PORT = re.compile("[0-9]{1,5}")


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
class Key:
    """One key of the environment.

    ``default`` may name fields in braces that stand before it. ``values`` tells which values it
    takes, ``means`` what it is for, ``read_by`` for which processes; ``required_by``: they do not
    start without it.
    """

    read: Callable[[FileAwareEnv, str, Any], object]
    default: str | int | None = None
    values: str
    means: str
    read_by: tuple[Service, ...]
    required_by: tuple[Service, ...] = ()

    @property
    def told_default(self) -> str | int | None:
        """The default for people: None if there is none, keys in the place of fields."""
        if not isinstance(self.default, str):
            return self.default
        return re.sub(r"\{(\w+)\}", lambda found: found[1].upper(), self.default) or None

    def value(
        self, env: FileAwareEnv, name: str, *, service: Service, known: Mapping[str, object]
    ) -> object:
        """Return the value of the key ``name`` for a service; its faults are noted in ``env``."""
        if service in self.required_by:
            return self.read(env, name, ...)
        default = self.default
        if isinstance(default, str):
            default = default.format_map(known)
        return self.read(env, name, default)


def text(
    read_by: tuple[Service, ...],
    *,
    means: str,
    values: str = "text",
    default: str | None = None,
    check: Callable[[str], None] | None = None,
) -> Key:
    """Return a key whose value is a text, or None."""
    return Key(
        read=lambda env, name, default: env.str(name, default, validate=check),
        default=default,
        values=values,
        means=means,
        read_by=read_by,
    )


def secret(
    read_by: tuple[Service, ...],
    *,
    means: str,
    values: str = "text",
    required_by: tuple[Service, ...] = (),
    check: Callable[[str], None] | None = None,
) -> Key:
    """Return a key whose value is a Secret, or None."""

    def read(env: FileAwareEnv, name: str, default: str | None) -> Secret | None:
        found = env.str(name, default, validate=check)
        return None if found is None else Secret(found)

    return Key(read=read, values=values, means=means, read_by=read_by, required_by=required_by)


def number(
    default: int, within: tuple[int, int], read_by: tuple[Service, ...], *, means: str
) -> Key:
    """Return a key whose value is an integer within bounds, both of them included."""
    low, high = within
    check = validate.Range(min=low, max=high)
    return Key(
        read=lambda env, name, default: env.int(name, default, validate=check),
        default=default,
        values=f"{low} to {high}",
        means=means,
        read_by=read_by,
    )


def choice(
    default: str, options: tuple[str, ...], read_by: tuple[Service, ...], *, means: str
) -> Key:
    """Return a key whose value is one of the options."""
    within = validate.OneOf(options)
    return Key(
        read=lambda env, name, default: env.str(name, default, validate=within),
        default=default,
        values=", ".join(f"`{option}`" for option in options),
        means=means,
        read_by=read_by,
    )


def several(
    default: str,
    read_by: tuple[Service, ...],
    *,
    means: str,
    values: str,
    each: Callable[[str], Any] = str,
    check: Callable[[list[Any]], None] | None = None,
) -> Key:
    """Return a key whose value is a tuple; its items stand between commas.

    ``each`` reads one; both it and ``check`` raise ValidationError.
    """

    def check_all(items: list[str]) -> None:
        found = [each(item) for item in items]
        if check:
            check(found)

    # Not as a subcast: its fault would be told as the place of the item alone.
    def read(env: FileAwareEnv, name: str, default: str) -> tuple[Any, ...]:
        given = [item for item in default.split(",") if item]
        return tuple(each(item) for item in env.list(name, given, validate=check_all) or ())

    return Key(read=read, default=default, values=values, means=means, read_by=read_by)


def encryption_keys(read_by: tuple[Service, ...], *, means: str) -> Key:
    """Return a key whose value is a tuple of Secrets with which a Sealer can be made."""

    def read(env: FileAwareEnv, name: str, default: str) -> tuple[Secret, ...]:
        given = env.list(name, [], subcast=str.strip, validate=_can_seal)
        return tuple(Secret(key) for key in given or ())

    return Key(read=read, default="", values="base64, …", means=means, read_by=read_by)


def public_address(default: str, read_by: tuple[Service, ...], *, means: str) -> Key:
    """Return a key whose value is an address that people can click, without a slash at its end."""

    def read(env: FileAwareEnv, name: str, default: str) -> str:
        return (env.str(name, default, validate=_is_public) or "").rstrip("/")

    return Key(read=read, default=default, values="`http(s)://…`", means=means, read_by=read_by)


def begins_with(*schemes: str) -> Callable[[str], None]:
    """Return the check that a text is a URL of one of the schemes."""

    def check(text: str) -> None:
        try:
            parts = urlsplit(text)
        except ValueError:
            parts = urlsplit("")
        if parts.scheme not in schemes or not parts.netloc:
            raise ValidationError(f"Must be a URL that begins with {schemes[0]}://.")

    return check


def _has_fit_port(text: str) -> None:
    try:
        fits = urlsplit(text).port != 0
    except ValueError:
        fits = False
    if not fits:
        raise ValidationError("Must have a port from 1 to 65535, or none.")


def is_database(text: str) -> None:
    """Several hosts may stand in it, with a port each: more than a URL can have for others."""
    scheme, _, rest = text.partition("://")
    if scheme not in ("postgresql", "postgres") or not rest.partition("/")[0]:
        raise ValidationError("Must be a URL that begins with postgresql://.")
    try:
        timeout_from_conninfo(conninfo_to_dict(text))
    except ProgrammingError:  # which quotes what it cannot read: the password, or all of it
        reason = "Must be as PostgreSQL reads it: odd characters as %20, parameters that it has."
        raise ValidationError(reason) from None


def is_broker(text: str) -> None:
    """The nodes of a cluster share a name: the driver takes no list."""
    begins_with("amqp", "amqps")(text)
    if "," in urlsplit(text).netloc.rpartition("@")[2]:
        raise ValidationError("Must name one host: give the nodes of a cluster one name.")
    _has_fit_port(text)


def is_callable(text: str) -> None:
    """Raise ValidationError unless it can be called.

    A user part would make every call fail, and would be told in the clear.
    """
    begins_with("http", "https")(text)
    if "@" in urlsplit(text).netloc:
        raise ValidationError("Must not name a user or password.")
    _has_fit_port(text)


def _is_public(text: str) -> None:
    """People click what is made of it: nothing may follow the path."""
    is_callable(text)
    parts = urlsplit(text)
    if parts.query or parts.fragment or not text.isascii() or not text.isprintable():
        raise ValidationError("Must be a URL without a query, such as https://example.com.")


def is_redis(text: str) -> None:
    """Raise ValidationError unless it names a Redis."""
    try:
        parts = urlsplit(text)
    except ValueError:
        parts = urlsplit("")
    place = {"redis": parts.netloc, "rediss": parts.netloc, "unix": parts.path}
    if not place.get(parts.scheme):
        raise ValidationError("Must be a URL that begins with redis://, rediss:// or unix://.")
    _has_fit_port(text)


def is_prefix(text: str) -> None:
    """Raise ValidationError unless keys may begin with it."""
    if not _PREFIX.fullmatch(text):
        raise ValidationError("Must be up to 64 letters, digits, and characters of -_.:")


def _can_seal(keys: list[str]) -> None:
    try:
        Sealer(keys)
    except ValueError:
        reason = "Must be keys of 32 bytes in URL-safe base64, separated by commas."
        raise ValidationError(reason) from None


def are_roles(roles: list[str]) -> None:
    """Raise ValidationError unless they are roles of workers, each once."""
    if not roles or not set(roles) <= set(WORKER_ROLES) or len(set(roles)) < len(roles):
        raise ValidationError(f"Must be one or more of: {', '.join(WORKER_ROLES)}.")


def are_headers(text: str) -> None:
    """Refuse what are no headers as OpenTelemetry writes them."""
    pairs = [pair.partition("=") for pair in text.split(",")]
    if not all(name.strip() and value.strip() for name, _, value in pairs):
        raise ValidationError("Must be headers such as name=value,name=value.")


def read_port(text: str) -> int:
    """Return the port that a text names."""
    if not _PORT.fullmatch(text.strip()) or not 1 <= int(text) <= 65535:
        raise ValidationError("Must be ports from 1 to 65535.")
    return int(text)


def read_network(text: str) -> Network:
    """Return the network that a text names."""
    try:
        return ip_network(text.strip())
    except ValueError as error:
        raise ValidationError("Must be networks such as 10.1.0.0/16.") from error
