"""What the API looks at before it serves, and how it ends when that is not fit."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from gunicorn.arbiter import Arbiter  # type: ignore[import-untyped]  # it has none

from shared.db.roles import API, require_role_if_reached
from shared.errors import AppError
from shared.settings import Settings, read_settings

NAME = "duebook-api"


def fit_settings() -> Settings:
    """Return the settings; end the process with 2, saying why, when they or the login are not fit.

    gunicorn would tell an error of its workers by a traceback.
    """
    try:
        settings = read_settings("api")
        require_role_if_reached(settings.database_url.reveal(), API, application_name=NAME)
    except AppError as error:
        print(error.message, file=sys.stderr)
        sys.exit(2)
    return settings


@contextmanager
def boot() -> Iterator[None]:
    """Let a worker's error here end it, and gunicorn too, with a line that says why."""
    try:
        yield
    except AppError as error:
        print(error.message, file=sys.stderr)
        sys.exit(Arbiter.WORKER_BOOT_ERROR)
