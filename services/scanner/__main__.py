"""``python -m services.scanner``: run a scanner until SIGTERM or SIGINT."""

import sys

from shared.lifecycle import stop_on_signals
from shared.observability.left_out import leave_out_what_nobody_uses


def main() -> int:
    """Run the scanner; return its exit status."""
    stop = stop_on_signals()
    leave_out_what_nobody_uses()
    # Only now, for it takes a second: a signal in that time would end us hard, or, in a container
    # whose first process we are, be lost.
    from services.scanner.process import run

    return run(stop)


if __name__ == "__main__":
    sys.exit(main())
