"""What a transport is: the publishing side, the consuming side, and what it asks of a worker."""

from collections.abc import Sequence
from typing import Protocol

from shared.domain.work import Announced, Claimed, Reference, ReferenceKind


class Publisher(Protocol):
    """Sends references to announced rows; used by one thread. Only the scanner has one."""

    def ready(self) -> bool:
        """Return whether the broker takes messages at this moment."""

    def publish(self, announced: Sequence[Announced]) -> list[Announced]:
        """Send references to committed rows and return those that the broker did not confirm.

        Not confirmed does not mean not sent: a worker may meet the reference all the same.
        """

    def depths(self) -> dict[str, int]:
        """Return by queue how many messages wait in it. Raises Unavailable without an answer."""

    def close(self) -> None:
        """Let the connection go."""


class Claimer(Protocol):
    """How a worker takes rows under its lease; what it returns has been committed."""

    def claim(self, kind: ReferenceKind, references: Sequence[Reference]) -> Sequence[Claimed]:
        """Claim these rows; one that is not pending, not due or under another token is left out."""

    def claim_due(
        self, *, kind: ReferenceKind, urgent: bool, limit: int, fairly: bool
    ) -> Sequence[Claimed]:
        """Claim the rows due the longest, or the longest due of each tenant in turn.

        Those that are ``urgent``, or the others.
        """


class Consumer(Protocol):
    """Hands claimed work to one worker; ``receive`` is called by one thread."""

    def ready(self) -> bool:
        """Return whether work can arrive at this moment."""

    def receive(self, *, free: int, timeout: float) -> Sequence[Claimed]:
        """Return claimed work, at most twice ``free`` (threads), waiting up to ``timeout`` seconds.

        Empty: nothing came, what came was not to be had, or the consumer was stopped. What a claim
        raises goes through; nothing is lost by it.
        """

    def stop(self) -> None:
        """Take nothing any more: a waiting ``receive`` ends, what was not claimed goes back."""
