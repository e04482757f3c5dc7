"""What the API looks at before it serves: once, in gunicorn's first process."""

import sys

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
