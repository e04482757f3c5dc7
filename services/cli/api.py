"""What commands ask: the API, or the same application on a database; tables by their names."""

import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click

from services.cli.calls import Api, Refused
from services.cli.places import local_place, open_place, place_options
from shared.errors import AppError

__all__ = [
    "TABLES",
    "Api",
    "Refused",
    "admin_api_option",
    "api_of_admin",
    "api_of_moderator",
    "api_option",
    "find_table",
]

TABLES = "/tenant/custom-tables/tables"

api_option = place_options

admin_api_option = click.option(
    "--api",
    "api_url",
    metavar="URL",
    help="Ask this API, as the holder of ADMIN_TOKEN, instead of using DATABASE_URL.",
)


def api_of_moderator(url: str) -> Api:
    """Return the API for the holder of DUEBOOK_TOKEN, or what takes its place on a database."""
    if (place := local_place()) is not None:
        return open_place(place)
    missing = (
        "this needs an API token of a moderator; that of make run is set by `. .run/environment`"
    )
    token = _token("DUEBOOK_TOKEN", missing)
    return Api(_checked(url), headers={"Authorization": f"Bearer {token}"})


def api_of_admin(url: str) -> Api:
    """Return the API for the holder of ADMIN_TOKEN."""
    missing = "this needs the token of the operator"
    return Api(_checked(url), headers={"X-ADMIN-TOKEN": _token("ADMIN_TOKEN", missing)})


def _checked(url: str) -> str:
    """Return the address of an API; raises UsageError for what is none."""
    try:
        parts = urlsplit(url)
        is_sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # no port, or half an address of IPv6
        is_sound = False
    if not is_sound:
        message = f"the address of the API must be like https://duebook.example.com, not '{url}'"
        raise click.UsageError(message)
    return url


def _token(key: str, missing: str) -> str:
    """Return the token in the file that the environment names, else the one under the key itself.

    That is how settings are read. Without one, tell what is missing.
    """
    in_file = _text_of_file(f"{key}_FILE")
    token = os.environ.get(key) if in_file is None else in_file
    if not token:
        raise click.UsageError(f"{key} is not set: {missing}")
    if not (token.isascii() and token.isprintable()):
        raise click.UsageError(f"{key} is no token: it has a line end or another odd character")
    return token


def _text_of_file(key: str) -> str | None:
    """Return what is in the file that the environment names, without blanks around it.

    None: it names none.
    """
    path = os.environ.get(key)
    if not path:
        return None
    try:
        return Path(path).read_text("utf-8").strip()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"the file that {key} names cannot be read") from error


def find_table(api: Api, name_or_id: str) -> dict[str, Any]:
    """Return the table with this id or name; raises AppError when there is none, or several."""
    found = [table for table in api.items(TABLES) if name_or_id in (table["id"], table["name"])]
    if len(found) == 1:
        return found[0]
    if not found:
        raise AppError(f"there is no table '{name_or_id}'", code="table_not_found")
    ids = ", ".join(table["id"] for table in found)
    raise AppError(f"several tables are named '{name_or_id}': {ids}", code="table_ambiguous")
