"""Cells that an action writes: checked at save as far as they are known, whole when written."""

from collections.abc import Collection, Mapping
from dataclasses import replace

from psycopg import Connection

from shared.actions.action import ActionContext, CheckContext
from shared.actions.failures import ActionFailed
from shared.actions.schemas import has_tokens
from shared.domain.columns import Column, read_cells
from shared.domain.records import CustomTable
from shared.domain.strict_json import Json
from shared.errors import Fault, InvalidInput
from shared.queries.former_names import former_names


def data_faults(
    data: Mapping[str, Json], columns: tuple[Column, ...], context: CheckContext
) -> list[Fault]:
    """Return the unknown columns of an action's ``data``, and its constants that are no cells."""
    known = {
        name: None if has_tokens(value, on_events=context.on_events) else value
        for name, value in data.items()
    }
    try:
        read_cells(known, columns, "/data")
    except InvalidInput as error:
        return list(error.faults)
    return []


def rendered_cells(
    data: Mapping[str, Json], columns: tuple[Column, ...], context: ActionContext
) -> dict[str, Json]:
    """Return the cells to write by column id. Raises ActionFailed when they do not fit."""
    try:
        return read_cells(context.render(dict(data)), columns)
    except InvalidInput as error:
        raise ActionFailed(error.message) from error


def columns_as_frozen(table: CustomTable, context: ActionContext) -> tuple[Column, ...]:
    """Return the columns of the run's own table under the names that its definition knows.

    A column that was renamed since keeps its id, and is found; one that was dropped is not.
    """
    present = {column.id: column for column in table.columns}
    return tuple(
        replace(present[frozen.id], name=frozen.name)
        for frozen in context.columns
        if frozen.id in present
    )


def columns_as_known(
    conn: Connection, table: CustomTable, names: Collection[str]
) -> tuple[Column, ...]:
    """Return the columns of another table under the names that an action knows.

    A name that no column has any more, since it was renamed when the action was frozen already, is
    that of the column that had it last.
    """
    unknown = set(names) - {column.name for column in table.columns}
    former = former_names(conn, table.id) if unknown else {}
    old = {former[name]: name for name in unknown if name in former}
    return tuple(
        replace(column, name=old[column.id])
        if column.id in old and column.name not in names
        else column
        for column in table.columns
    )
