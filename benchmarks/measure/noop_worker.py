"""The worker with action types that do nothing: what is measured is all that goes on around them.

``noop`` passes for an effect inside the database, ``noop_external`` for a call.
"""

import sys
import time
from dataclasses import dataclass

from services.worker.__main__ import main
from shared.actions.registry import ACTIONS
from shared.actions.schemas import ActionSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class Noop:
    """An action type without an effect."""

    type: str
    kind: str
    schema = ActionSchema
    templated = ()

    def effect(self, _services):
        """Return the kind of effect that it pretends to have."""
        return self.kind

    def check(self, _config, _context):
        """Return no fault."""
        return []

    def execute(self, _config, _context):
        """Do nothing, and tell when: receipts tell the second alone."""
        return {"at": time.time()}


if __name__ == "__main__":
    ACTIONS["noop"] = Noop(type="noop", kind="internal")
    ACTIONS["noop_external"] = Noop(type="noop_external", kind="external")
    sys.exit(main())
