"""What belongs to a table and is asked for by its number alone: all tables are asked then."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from services.cli.api import TABLES, Api, Refused, find_table
from shared.errors import AppError

Table = dict[str, Any]

_TRIGGER_ID = re.compile("trg_[0-9a-f]{12}")


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


def find_trigger(api: Api, tables: list[Table], name_or_id: str) -> tuple[list[Table], str]:
    """Return those of the tables that may have the trigger with this id or name, and its id.

    An id is looked up nowhere: it may be of a removed trigger, and bundles bring one to several
    tables. Raises AppError when no trigger has the name, or several have it.
    """
    if _TRIGGER_ID.fullmatch(name_or_id):
        return tables, name_or_id
    found = [
        (table, str(trigger["id"]))
        for table in tables
        for trigger in api.call("GET", f"{TABLES}/{table['id']}/triggers")["triggers"]
        if trigger.get("name") == name_or_id
    ]
    if len(found) > 1:
        ids = ", ".join(id for _, id in found)
        raise AppError(
            f"several triggers are named '{name_or_id}': {ids}", code="trigger_ambiguous"
        )
    if not found:
        has_none = f"table '{tables[0]['name']}' has no" if len(tables) == 1 else "no table has a"
        raise AppError(f"{has_none} trigger '{name_or_id}'", code="trigger_not_found")
    return [found[0][0]], found[0][1]


def newest_of_tables(
    api: Api,
    tables: Sequence[Table],
    *,
    path: Callable[[Table], str],
    query: dict[str, Any],
    limit: int,
) -> list[dict[str, Any]]:
    """Return what is listed below the paths of tables, each with its table's name."""
    found = [
        {**one, "table": owner["name"]}
        for owner in tables
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
