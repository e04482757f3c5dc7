"""Tables with channel SCP rules: no action may touch them, whoever's it is.

The rules are the floor of all who act in the channel, and an action acts for none of them.
"""

from collections.abc import Iterator

from shared.actions.failures import ActionFailed
from shared.domain.records import CustomTable
from shared.domain.scp_rules import ACTIONS_ACT_FOR_NOBODY, refuse_actions
from shared.errors import Conflict, Fault


def ruled_faults(named: str, table: CustomTable, pointer: str) -> Iterator[Fault]:
    """Give why a table cannot be named by an action, if it has rules; ``named``: where it is."""
    if table.scp_ruled:
        message = f"{named} names a table with channel SCP rules: {ACTIONS_ACT_FOR_NOBODY}"
        yield Fault(code="table_scp_ruled", pointer=pointer, message=message)


def refuse_ruled(table: CustomTable) -> None:
    """Raise ActionFailed when rules were made since the action was saved."""
    try:
        refuse_actions(table)
    except Conflict as error:
        raise ActionFailed(error.message) from error
