"""``duebook doctor``: is this installation sound, and with ``--verify``, is what it has stored."""

from dataclasses import asdict
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from services.cli.output import json_option, say, say_json, say_table
from shared.domain.invariants import Violation

if TYPE_CHECKING:
    from services.cli.checkup import Check
    from shared.settings import Settings

_VIOLATIONS_TOLD = 20


@click.command(short_help="Look at an installation, and verify what always holds.")
@click.option("--verify", is_flag=True, help="Ask the database for every invariant: reads it all.")
@click.option(
    "--grace",
    type=click.IntRange(0),
    default=300,
    show_default=True,
    help="With --verify: what should have happened so many seconds ago counts as forgotten.",
)
@json_option
def doctor(verify: bool, grace: int, as_json: bool) -> None:
    """Look at settings, versions, migrations, sessions, clock, work and broker.

    Exit code 1 when something failed, or, with --verify, an invariant is broken.
    """
    # Here, since no other command has to wait for drivers of broker and Redis.
    from services.cli.checkup import examine
    from shared.observability.logs import configure_logging
    from shared.settings import read_settings

    settings = read_settings("cli")
    configure_logging(service="cli", log_format="console", level="ERROR")
    checks = list(examine(settings, verify=verify))
    sound = all(check.state != "failed" for check in checks)
    violations = _verify(settings, grace) if verify and sound else []
    if as_json:
        say_json(
            {
                "ok": sound and not violations,
                "checks": [asdict(check) for check in checks],
                "violations": [asdict(violation) for violation in violations],
            }
        )
    else:
        _say(checks, violations, verified=verify and sound)
    if violations or not sound:
        raise SystemExit(1)


def _verify(settings: "Settings", grace: int) -> list[Violation]:
    from shared.db.clock import server_now
    from shared.db.connection import connect
    from shared.queries.invariants import list_violations

    with connect(
        settings.database_url.reveal(), application_name="duebook-doctor", statement_seconds=0
    ) as conn:
        settled_before = server_now(conn) - timedelta(seconds=grace)
        return list_violations(
            conn,
            settled_before=settled_before,
            limit=_VIOLATIONS_TOLD,
            max_retries=settings.max_retries,
        )


def _say(checks: "list[Check]", violations: list[Violation], *, verified: bool) -> None:
    say_table(
        [asdict(check) for check in checks],
        {"name": "check", "state": "state", "found": "found"},
        empty="",
    )
    if not verified:
        return
    say()
    say_table(
        [asdict(violation) for violation in violations],
        {"invariant": "invariant", "found": "broken by", "promise": "promise"},
        empty="every invariant holds",
    )
