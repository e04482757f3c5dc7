"""What commands ask: the API, or the same application on a database; tables by their names."""

import os
from typing import Any

import click

from services.cli.calls import Api, Refused
from services.cli.places import local_place, open_place, place_options
from shared.errors import AppError

__all__ = [
    "TABLES",
    "Api",
    "Refused",
    "api_of_admin",
    "api_of_moderator",
    "api_option",
    "find_table",
]

TABLES = "/tenant/custom-tables/tables"

api_option = place_options


def api_of_moderator(url: str) -> Api:
    """Return the API for the holder of DUEBOOK_TOKEN, or what takes its place on a database."""
    if (place := local_place()) is not None:
        return open_place(place)
    token = os.environ.get("DUEBOOK_TOKEN")
    if not token:
        raise click.UsageError(
            "DUEBOOK_TOKEN is not set: this needs an API token of a moderator; "
            "that of make run is set by `. .run/environment`"
        )
    return Api(url, headers={"Authorization": f"Bearer {token}"})


def api_of_admin(url: str) -> Api:
    """Return the API for the holder of ADMIN_TOKEN."""
    token = os.environ.get("ADMIN_TOKEN")
    if not token:
        raise click.UsageError("ADMIN_TOKEN is not set: this needs the token of the operator")
    return Api(url, headers={"X-ADMIN-TOKEN": token})


def find_table(api: Api, name_or_id: str) -> dict[str, Any]:
    """Return the table with this id or name; raises AppError when there is none, or several."""
    found = [table for table in api.items(TABLES) if name_or_id in (table["id"], table["name"])]
    if len(found) == 1:
        return found[0]
    if not found:
        raise AppError(f"there is no table '{name_or_id}'", code="table_not_found")
    ids = ", ".join(table["id"] for table in found)
    raise AppError(f"several tables are named '{name_or_id}': {ids}", code="table_ambiguous")
