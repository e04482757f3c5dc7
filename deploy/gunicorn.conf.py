"""How gunicorn serves the API: ``gunicorn -c deploy/gunicorn.conf.py services.api.wsgi:app``.

One process with threads: requests wait for PostgreSQL, not for Python, and one process keeps one
set of metrics and one health port. More load means more replicas.
"""

import gc

from shared.observability.left_out import leave_out_what_nobody_uses

leave_out_what_nobody_uses()

from services.api.startup import fit_settings  # noqa: E402  # what it imports would load them
from shared.observability import tracing  # noqa: E402
from shared.observability.logs import configure_logging  # noqa: E402

_settings = fit_settings()
configure_logging(service="api", log_format=_settings.log_format, level=_settings.log_level)

bind = f"{_settings.api_host}:{_settings.api_port}"
workers = 1
worker_class = "services.api.server.PatientWorker"
# More threads than sessions: most of a request is reading and writing, which holds no session.
threads = 4 * _settings.db_pool_size
worker_connections = 1000
keepalive = 75
graceful_timeout = 30
# Requests are counted and logged by the application itself.
logger_class = "services.api.server.PlainLogger"
limit_request_line = 8190
limit_request_fields = 100
limit_request_field_size = 8190
# Only an ingress may say who the client is; the API does not ask.
forwarded_allow_ips = ""
# It is ended by signals; a further way in would be a file to guard, and to have room for.
control_socket_disable = True


def pre_fork(server: object, worker: object) -> None:
    """Share what is there by now with the worker: its collector would write to every page of it."""
    gc.collect()
    gc.freeze()


def worker_exit(server: object, worker: object) -> None:
    """Send the traces of the last requests."""
    tracing.stop()
