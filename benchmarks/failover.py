"""How soon does work go on when the primary is lost?

It is killed with everything that it runs, and its synchronous standby is promoted at once; real
processes find it by a URL with both hosts. Counted from the end of the promotion: until a write is
answered, and until what this write triggers has been done.
"""

import tempfile
from pathlib import Path
from statistics import median
from uuid import uuid4

from benchmarks.measure.report import read_options, report, rounded
from shared.lifecycle import monotonic
from tests.e2e.installation import Installation, Workspace, notify
from tests.servers.replication import running_pair

_SERVICES = ("api", "scanner", "scanner", "worker", "worker")


def main():
    """Lose one primary after the other and print one table."""
    options = read_options(__doc__, sizes={"rounds": (3, 15)})
    measured = [lose_a_primary() for _ in range(options.rounds)]
    rows = [
        {
            "until": what,
            "median s": rounded(median(times[what] for times in measured)),
            "longest s": rounded(max(times[what] for times in measured)),
        }
        for what in measured[0]
    ]
    report("failover", f"{options.rounds} lost primaries", rows, options=options)


def lose_a_primary():
    """Return the seconds that a promotion took, and those from it to the next two things."""
    with running_pair() as pair, tempfile.TemporaryDirectory() as logs:
        pair.confirm_on_the_standby()
        installation = Installation(database_url=pair.url, amqp_url=None, logs=Path(logs))
        try:
            for service in _SERVICES:
                installation.start(service)
            installation.wait(installation.answers)
            return _lose(pair, installation)
        finally:
            installation.stop()


def _lose(pair, installation):
    workspace = Workspace(installation)
    chatroom = str(uuid4())
    table = workspace.make_table("cases", subject="text")
    created = {"on": "record_created", "actions": [notify("made", chatroom=chatroom)]}
    workspace.set_triggers(table, created)
    workspace.make_record(table)
    installation.wait(lambda: workspace.messages(chatroom) == ["made"])

    killed_at = monotonic()
    pair.kill_primary()
    pair.promote()
    promoted_at = monotonic()
    key = str(uuid4())
    installation.wait(lambda: workspace.is_written(table, key))
    written_at = monotonic()
    installation.wait(lambda: workspace.messages(chatroom) == ["made"] * 2)
    return {
        "promoted, from the kill on": promoted_at - killed_at,
        "a write is answered": written_at - promoted_at,
        "what it triggers is done": monotonic() - promoted_at,
    }


if __name__ == "__main__":
    main()
