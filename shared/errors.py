"""The error tree: one class per reaction of the caller, each with a stable code and a message."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing that is wrong with an input.

    ``pointer`` is a JSON pointer into the input ("" is the whole); ``code`` is stable snake_case.
    """

    code: str
    pointer: str
    message: str


class AppError(Exception):
    """Base of all errors that a caller is meant to react to; ``code`` is stable, for programs."""

    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code


class InvalidInput(AppError):
    """The input breaks a rule; ``faults`` has all that was found, in document order."""

    code = "invalid_input"

    def __init__(
        self, message: str, *, code: str | None = None, faults: tuple[Fault, ...] = ()
    ) -> None:
        super().__init__(message, code=code)
        self.faults = faults

    @classmethod
    def of(cls, faults: tuple[Fault, ...] | list[Fault]) -> "InvalidInput":
        """Return the error for at least one fault; its message and code are the first one's."""
        return cls(faults[0].message, code=faults[0].code, faults=tuple(faults))


class Unauthenticated(AppError):
    """No token, or one that is not known."""

    code = "unauthenticated"


class Forbidden(AppError):
    """Known, but not allowed: another tenant, or a missing role."""

    code = "forbidden"


class NotFound(AppError):
    """Absent or trashed."""

    code = "not_found"


class Conflict(AppError):
    """The state of the thing does not allow it."""

    code = "conflict"


class StaleVersion(AppError):
    """The caller's If-Match names a revision that is no longer the present one."""

    code = "stale_version"


class Unavailable(AppError):
    """Busy or away just now; try again after ``retry_after_seconds``."""

    code = "unavailable"

    def __init__(
        self, message: str, *, code: str | None = None, retry_after_seconds: int = 1
    ) -> None:
        super().__init__(message, code=code)
        self.retry_after_seconds = retry_after_seconds
