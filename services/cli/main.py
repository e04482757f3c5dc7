"""The ``duebook`` command: its groups, and how failures end it.

Exit codes for scripts: 0 done, 1 refused or something found, 2 wrong usage or settings, 3 database,
broker or API not reached (try again), 130 interrupted (1 at a question).
"""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import click
import psycopg
from psycopg.errors import (
    InsufficientPrivilege,
    ReadOnlySqlTransaction,
    UndefinedColumn,
    UndefinedTable,
)

from services.cli.commands.actions import actions
from services.cli.commands.bundles import apply, export, plan
from services.cli.commands.changes import changes
from services.cli.commands.dead_letters import dead_letters
from services.cli.commands.dev import dev
from services.cli.commands.doctor import doctor
from services.cli.commands.events import events
from services.cli.commands.questions import timeline, why
from services.cli.commands.records import records
from services.cli.commands.runs import runs
from services.cli.commands.schedules import preview, tick
from services.cli.commands.secrets import secrets
from services.cli.commands.setup import migrate, openapi, restored, settings
from services.cli.commands.simulation import simulate
from services.cli.commands.tables import tables
from services.cli.commands.tenants import tenants
from services.cli.commands.tokens import token
from services.cli.output import give_up_stdout, ready_streams, shown_lines
from shared.errors import AppError, InvalidInput, Unavailable

SECTIONS: dict[str, tuple[click.Command, ...]] = {
    "On this machine": (dev,),
    "What is due, and why": (preview, simulate, why, timeline, tick),
    "What became of it": (runs, events, actions, changes),
    "Tables and definitions": (tables, records, secrets, export, plan, apply),
    "An installation": (
        *(migrate, restored, settings, doctor),
        *(tenants, token, dead_letters, openapi),
    ),
}
"""The commands, as ``duebook --help`` groups them."""

# What a standard output fails with that takes no more: a full disk, a lost or a closed one.
_UNWRITABLE = (errno.ENOSPC, errno.EIO, errno.EBADF)


class _Failed(click.ClickException):
    def format_message(self) -> str:
        """Return what is told: it may quote strangers."""
        return shown_lines(self.message)


class _Refused(_Failed):
    exit_code = 1


class _Misused(_Failed):
    exit_code = 2


class _NotReached(_Failed):
    exit_code = 3


class _Interrupted(_Failed):
    exit_code = 130


class _Duebook(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read the command line; with --help it is answered here."""
        ready_streams()
        with _told_in_a_line():
            return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what it may fail with becomes one message and an exit code."""
        with _told_in_a_line():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the headings of their groups."""
        names = [str(command.name) for commands in SECTIONS.values() for command in commands]
        limit = formatter.width - 6 - max(len(name) for name in names)
        for heading, commands in SECTIONS.items():
            with formatter.section(heading):
                rows = [(str(one.name), one.get_short_help_str(limit)) for one in commands]
                formatter.write_dl(
                    [(name.ljust(max(map(len, names))), text) for name, text in rows]
                )


@contextmanager
def _told_in_a_line() -> Iterator[None]:
    try:
        yield
    except (Exception, KeyboardInterrupt) as error:
        failure = _failure_of(error)
        if failure is None:
            raise
        raise failure from error


def _failure_of(error: BaseException) -> _Failed | None:
    """Return how an error ends the command, None for one that nobody foresaw."""
    match error:
        case AppError():
            return _failure_of_ours(error)
        case psycopg.Error():
            return _failure_of_database(error)
        case BrokenPipeError():  # whoever reads it has had enough: no failure
            return None
        case OSError():
            return _failure_of_system(error)
        case UnicodeEncodeError():
            return _Misused(f"an argument is not UTF-8: '{error.object}'")
        case KeyboardInterrupt():
            return _Interrupted("interrupted")
    return None


def _failure_of_ours(error: AppError) -> _Failed:
    if isinstance(error, Unavailable):
        return _NotReached(error.message)
    is_misuse = isinstance(error, InvalidInput) and error.code == "settings_invalid"
    return (_Misused if is_misuse else _Refused)(error.message)


def _failure_of_database(error: psycopg.Error) -> _Failed | None:
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    match error:
        case UndefinedTable() | UndefinedColumn():
            return _Refused("the database is of another release: run duebook migrate")
        case InsufficientPrivilege():
            return _Refused(f"the database: {reason}: this needs another login")
        case psycopg.OperationalError() | ReadOnlySqlTransaction():
            return _NotReached(f"the database: {reason}")
    return None


def _failure_of_system(error: OSError) -> _Failed:
    reason = error.strerror or str(error)
    if error.filename is not None:
        return _Refused(f"{error.filename}: {reason}")
    if error.errno in _UNWRITABLE:
        give_up_stdout()
    return _Refused(reason)


@click.group(
    cls=_Duebook,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version("duebook"), message="duebook %(version)s")
def main() -> None:
    """Schedule triggers and delayed actions on the rows of your tables, in PostgreSQL.

    Commands about tables and what fires on them ask the API at DUEBOOK_API, with a moderator's
    API token in DUEBOOK_TOKEN; or, with --tenant or --database, a database without an API. Those
    about an installation read DATABASE_URL.

    Exit codes: 0 done, 1 refused or something found, 2 wrong usage or settings, 3 not reached: try
    again.
    """


for _commands in SECTIONS.values():
    for _command in _commands:
        main.add_command(_command)
