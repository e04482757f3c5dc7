"""What libraries would load for themselves although nobody here uses it: six MiB a process."""

import sys
from types import ModuleType
from typing import cast

# structlog's richer traces print local variables and are not written (``logs``); of the metrics of
# Redis' client nobody asks any. Both take them for optional.
_LEFT_OUT = ("rich", "opentelemetry.sdk.metrics")


def leave_out_what_nobody_uses() -> None:
    """Let imports from here on find none of it, as if it were not installed.

    Before anything else is imported; what is loaded already stays.
    """
    for name in _LEFT_OUT:
        cast("dict[str, ModuleType | None]", sys.modules).setdefault(name, None)
