"""The ``duebook`` command: its groups, and how failures end it.

Exit codes for scripts: 0 done, 1 refused or something found, 2 wrong usage or settings, 3 database,
broker or API not reached (try again).
"""

from importlib.metadata import version

import click
import psycopg
from psycopg.errors import InsufficientPrivilege, UndefinedColumn, UndefinedTable

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
from services.cli.output import shown_lines
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


class _Duebook(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what it may fail with becomes one message and an exit code."""
        try:
            return super().invoke(ctx)
        except Unavailable as error:
            raise _NotReached(error.message) from error
        except (UndefinedTable, UndefinedColumn) as error:
            raise _Refused("the database is of another release: run duebook migrate") from error
        except InsufficientPrivilege as error:
            reason = error.diag.message_primary
            raise _Refused(f"the database: {reason}: this needs another login") from error
        except psycopg.OperationalError as error:
            reason = str(error).strip().splitlines()[0]
            raise _NotReached(f"the database: {reason}") from error
        except InvalidInput as error:
            kind = _Misused if error.code == "settings_invalid" else _Refused
            raise kind(error.message) from error
        except AppError as error:
            raise _Refused(error.message) from error
        except PermissionError as error:
            raise _Refused(f"{error.filename}: {error.strerror}") from error

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
