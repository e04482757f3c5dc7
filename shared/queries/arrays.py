"""Statements about rows that arrays name find them by their key, whatever the planner believes.

Work comes and goes faster than statistics are taken: a plan made while next to nothing was pending
is kept when a hundred thousand rows are. So each row is locked by its key in a LATERAL of its own,
and its status told by a column that is set exactly in it (``pending_can_be_found``,
``running_is_held``): the status itself would offer the index of all rows in it instead.
"""

from collections.abc import Iterable, Sized

_LARGE = 50


def prepare(rows: Sized) -> bool | None:
    """Return the driver's ``prepare`` for a statement that joins arrays of so many rows to a table.

    A prepared one is planned for arrays of ten and compares each row with each; a large group is
    worth a plan of its own.
    """
    return False if len(rows) > _LARGE else None


def numbers_text(numbers: Iterable[int]) -> str:
    """Return integers as the text of an array, to be cast.

    The driver takes an array apart in Python, which costs several times as much for each of them.
    """
    return f"{{{','.join(map(str, numbers))}}}"
