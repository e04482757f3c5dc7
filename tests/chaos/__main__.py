"""``make chaos``: a run from the command line. Exit code 1 when a promise was broken.

``make chaos CHAOS="--seed 7 --minutes 3 --identities 2000 --transport postgresql"``
"""

import argparse
import math
import secrets
import sys
from pathlib import Path

from tests.chaos.run import Options, run, table_of

_PER_MINUTE = 16


def _options():
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="of all that is drawn; drawn itself if absent")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long faults strike")
    parser.add_argument("--identities", type=int, default=10_000)
    parser.add_argument("--faults", type=int, help=f"{_PER_MINUTE} per minute if absent")
    parser.add_argument("--transport", choices=["rabbitmq", "postgresql"], default="rabbitmq")
    parser.add_argument("--folder", type=Path, help="for timeline and logs")
    given = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if given.seed is None else given.seed
    return Options(
        seed=seed,
        transport=given.transport,
        identities=given.identities,
        seconds=60 * given.minutes,
        faults=given.faults or math.ceil(_PER_MINUTE * given.minutes),
        folder=given.folder or Path(".chaos") / f"{given.transport}-{seed}",
    )


def main():
    options = _options()
    print(
        f"seed {options.seed}: {options.identities} identities, {options.faults} faults in"
        f" {options.seconds:.0f} s, {options.transport}; timeline in {options.folder}",
        flush=True,
    )
    report = run(options)
    print(table_of(report))
    return 0 if report.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
