"""What belongs to a table and is asked for by its number alone: all tables are asked then."""

from collections.abc import Callable, Sequence
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


def newest_of_tables(
    api: Api,
    table: str | None,
    *,
    path: Callable[[Table], str],
    query: dict[str, Any],
    limit: int,
) -> list[dict[str, Any]]:
    """Return what is listed below the path of a table, or of all, each with its table's name."""
    found = [
        {**one, "table": owner["name"]}
        for owner in asked_tables(api, table)
        for one in api.items(path(owner), query=query, limit=limit)
    ]
    return sorted(found, key=lambda one: -one["id"])[:limit]


def move_each(
    api: Api,
    table: str | None,
    ids: Sequence[int],
    verb: str,
    *,
    path: Callable[[Table], str],
    what: str,
    body: object = None,
) -> list[dict[str, Any]]:
    """Do this to each, found as ``find_of_table`` does; return what they are then."""
    moved = []
    for id in ids:
        owner, _ = find_of_table(api, table, id, path=path, what=what)
        answer = api.call("POST", f"{path(owner)}/{id}/{verb}", body=body)
        moved.append({**answer, "table": owner["name"]})
    return moved
