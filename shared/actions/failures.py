"""How an action says that it failed."""

from collections.abc import Mapping
from typing import Any


class ActionFailed(Exception):
    """An action did not do what it should; ``detail`` is for people and ends in the receipt.

    ``transient``: another execution may succeed. ``retry_after``: seconds that the receiver asked
    to wait. ``unknown``: the receiver may have acted although it did not say so. ``result``: what
    the receipt tells beside the detail.
    """

    def __init__(
        self,
        detail: str,
        *,
        transient: bool = False,
        retry_after: float | None = None,
        unknown: bool = False,
        result: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.transient = transient
        self.retry_after = retry_after
        self.unknown = unknown
        self.result = dict(result or {})
