"""What belongs to a table and is asked for by its number alone: all tables are asked then."""

from collections.abc import Callable
from typing import Any

from services.cli.api import TABLES, Api, Refused, find_table
from shared.errors import AppError

Table = dict[str, Any]


def asked_tables(api: Api, table: str | None) -> list[Table]:
    """Return the table with this name or id, for None all of them."""
    return list(api.items(TABLES)) if table is None else [find_table(api, table)]


def find_of_table(
    api: Api, table: str | None, id: int, *, path: Callable[[Table], str], what: str
) -> tuple[Table, dict[str, Any]]:
    """Return what has this number below the path of a table, with that table.

    ``table`` None: all of them are asked. Raises AppError when it is nowhere; it is called
    ``what`` then.
    """
    for owner in asked_tables(api, table):
        try:
            return owner, api.call("GET", f"{path(owner)}/{id}")
        except Refused as error:
            if error.status != 404:
                raise
    raise AppError(f"there is no {what} {id}", code=f"{what.replace(' ', '_')}_not_found")
