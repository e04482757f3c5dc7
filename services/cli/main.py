"""The ``duebook`` command: its groups, and how failures end it.

Exit codes for scripts: 0 done, 1 refused or something found, 2 wrong usage or settings, 3 database,
broker or API not reached (try again).
"""

from importlib.metadata import version

import click
import psycopg

from services.cli.commands.actions import actions
from services.cli.commands.bundles import apply, export, plan
from services.cli.commands.changes import changes
from services.cli.commands.dead_letters import dead_letters
from services.cli.commands.dev import dev
from services.cli.commands.doctor import doctor
from services.cli.commands.questions import simulate, timeline, why
from services.cli.commands.records import records
from services.cli.commands.runs import runs
from services.cli.commands.schedules import preview, tick
from services.cli.commands.setup import migrate, openapi
from services.cli.commands.tokens import token
from shared.errors import AppError, InvalidInput, Unavailable


class _Refused(click.ClickException):
    exit_code = 1


class _Misused(click.ClickException):
    exit_code = 2


class _NotReached(click.ClickException):
    exit_code = 3


class _Duebook(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what it may fail with becomes one message and an exit code."""
        try:
            return super().invoke(ctx)
        except Unavailable as error:
            raise _NotReached(error.message) from error
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


@click.group(
    cls=_Duebook,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(version("duebook"), message="duebook %(version)s")
def main() -> None:
    """Schedule triggers and delayed actions on the rows of your tables, in PostgreSQL.

    Commands on a database read DATABASE_URL. Commands that talk to the API read its address from
    DUEBOOK_API and an API token of role moderator from DUEBOOK_TOKEN.
    """


for command in (
    dev,
    migrate,
    openapi,
    tick,
    preview,
    simulate,
    why,
    timeline,
    runs,
    actions,
    changes,
    records,
    export,
    plan,
    apply,
    token,
    dead_letters,
    doctor,
):
    main.add_command(command)
