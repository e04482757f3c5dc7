"""Secrets of a tenant, by name: what they may be, and how a header names one.

A header is a text, or ``{"secret": name, "prefix"?: text}``: definitions, receipts and bundles hold
the name alone.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from shared.domain.strict_json import Json
from shared.errors import Fault, InvalidInput

MAX_SECRET = 4000
MAX_PREFIX = 50
NAME_PATTERN = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"

_NAME = re.compile(NAME_PATTERN)
# What a header can carry, and does not lose at its ends.
_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSecret:
    """What may be told of a secret."""

    id: UUID
    tenant_id: UUID
    name: str
    created_at: datetime
    updated_at: datetime


def is_secret_name(text: object) -> bool:
    """Return whether a secret can have this name."""
    return isinstance(text, str) and _NAME.fullmatch(text) is not None


def check_secret(value: str) -> None:
    """Raise InvalidInput ``secret_invalid`` for a value that no header could carry."""
    if len(value) > MAX_SECRET:
        reason = f"value must have at most {MAX_SECRET} characters"
    elif not _VALUE.fullmatch(value):
        reason = "value must be printable ASCII, and neither begin nor end with a blank"
    else:
        return
    raise InvalidInput.of([Fault(code="secret_invalid", pointer="/value", message=reason)])


def secrets_named(headers: Mapping[str, Json]) -> Iterator[tuple[str, str]]:
    """Give (header, name) for each header that names a secret."""
    for header, value in headers.items():
        if isinstance(value, dict) and isinstance(value.get("secret"), str):
            yield header, str(value["secret"])
