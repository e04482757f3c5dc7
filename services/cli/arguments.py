"""What several commands take: the number of a row, an instant, a name."""

import re

import click

from shared.domain.tenants import MAX_NAME

_NUMBER = re.compile("[0-9]{1,19}")
_LARGEST_ID = 2**63 - 1


class _RowId(click.ParamType[int]):
    name = "id"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number; fails for what no row can have."""
        text = str(value)
        if not (_NUMBER.fullmatch(text) and 1 <= int(text) <= _LARGEST_ID):
            self.fail(f"'{text}' is no id: ids are numbers from 1", param, ctx)
        return int(text)


ROW_ID = _RowId()
"""The number of a run, a record, an event …"""

INSTANT = "like 2026-08-27T05:02:13Z"
"""How the help of an option tells of an INSTANT."""


def checked_name(_ctx: click.Context, _parameter: click.Parameter, name: str) -> str:
    """Return the name of a tenant or a token; raises BadParameter for one that none can have."""
    if not 1 <= len(name) <= MAX_NAME:
        raise click.BadParameter(f"a name has 1 to {MAX_NAME} characters")
    return name
