"""Export: what a tenant, or a channel of it, has, as a bundle that plans as nothing to do."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Protocol, TypeVar
from uuid import UUID

from psycopg import Connection

from shared.domain.bundle_references import with_names
from shared.domain.bundles import (
    MAX_BYTES,
    MAX_LINES,
    command_body,
    dump_line,
    rule_body,
    table_body,
    trigger_body,
    workflow_body,
)
from shared.domain.faults import cut
from shared.domain.records import CustomTable
from shared.errors import Conflict
from shared.queries.commands import list_commands
from shared.queries.custom_tables import list_tables_by_id
from shared.queries.pages import Page
from shared.queries.table_names import list_table_names
from shared.queries.trigger_rules import list_rules
from shared.queries.workflows import list_workflows
from shared.usecases.bundle_state import Reach
from shared.usecases.preview import snapshot

_PAGE = 100

_Place = tuple[int, str]
"""Where a line stands: commands, tables with their triggers, workflows, rules; then by name."""
_Line = tuple[_Place, str]


class _Numbered(Protocol):
    @property
    def id(self) -> int:
        """By which pages follow each other."""
        ...


Row = TypeVar("Row", bound=_Numbered)


def export_bundle(conn: Connection, reach: Reach) -> str:
    """Return the document of all that is within reach, of one moment.

    The same definitions are the same bytes, in whatever order they were made. Raises Conflict
    ``table_ambiguous`` when tables share a name, ``bundle_too_large`` for what no plan would take.
    No transaction may be open.
    """
    lines: list[_Line] = []
    size = 0
    with snapshot(conn):
        for place, line in _lines(conn, reach):
            lines.append((place, line))
            size += len(line.encode())
            if size > MAX_BYTES or len(lines) > MAX_LINES:
                message = f"the bundle has more than {MAX_BYTES} bytes or {MAX_LINES} lines"
                raise Conflict(f"{message}: export it by channel", code="bundle_too_large")
    lines.sort(key=lambda found: found[0])  # stable: triggers stay behind their table
    return "".join(line for _, line in lines)


def _lines(conn: Connection, reach: Reach) -> Iterator[_Line]:
    names = dict(list_table_names(conn, reach.tenant_id, reach.channel_id))
    _refuse_ambiguous(names)
    yield from _tables(conn, reach, names)
    if reach.channel_id is not None:
        return
    tenant_id = reach.tenant_id
    for command in _all(
        lambda after: _whole(list_commands(conn, tenant_id, after=after, limit=_PAGE))
    ):
        yield (0, command.name), dump_line("command", command_body(command))
    for workflow in _all(lambda after: list_workflows(conn, tenant_id, after=after, limit=_PAGE)):
        body = with_names(workflow_body(workflow), names)
        yield (2, workflow.name), dump_line("workflow", body)
    for rule in _all(lambda after: list_rules(conn, tenant_id, after=after, limit=_PAGE)):
        yield (3, rule.name), dump_line("trigger_rule", with_names(rule_body(rule), names))


def _refuse_ambiguous(names: dict[UUID, str]) -> None:
    twice = sorted(name for name, count in Counter(names.values()).items() if count > 1)
    if twice:
        message = f"several tables are named '{cut(twice[0])}': rename them, or export by channel"
        raise Conflict(message, code="table_ambiguous")


def _tables(conn: Connection, reach: Reach, names: dict[UUID, str]) -> Iterator[_Line]:
    ids = list(names)
    for start in range(0, len(ids), _PAGE):
        for table in list_tables_by_id(conn, ids[start : start + _PAGE]):
            for line in _table(table, reach, names):
                yield (1, table.name), line


def _table(table: CustomTable, reach: Reach, names: dict[UUID, str]) -> Iterator[str]:
    yield dump_line("table", table_body(table, of_channel=reach.channel_id is not None))
    for stored in table.triggers or []:
        if isinstance(stored, dict):
            yield dump_line("trigger", with_names(trigger_body(table.name, stored), names))


def _all(read: Callable[[int], Page[Row]]) -> Iterator[Row]:
    after, more = 0, True
    while more:
        page = read(after)
        yield from page.items
        more = page.more
        after = page.items[-1].id if page.items else after


def _whole(rows: list[Row]) -> Page[Row]:
    """Return rows as a page: a full one may not be the last."""
    return Page(items=rows, more=len(rows) == _PAGE)
