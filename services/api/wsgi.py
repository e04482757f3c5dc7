"""The WSGI target of gunicorn, put together from the environment: ``services.api.wsgi:app``.

That the login may act as the API was looked at before (``startup``); its sessions fail otherwise.
"""

from services.api.app import create_app
from services.api.dependencies import Parts, operator_sessions
from services.api.long_questions import LongQuestions
from services.api.readiness import readiness_check
from services.api.request_limits import RequestLimits
from services.api.startup import NAME, boot
from shared.db.connection import open_pool
from shared.db.roles import API
from shared.observability import tracing
from shared.observability.http import HealthServer
from shared.observability.logs import configure_logging
from shared.observability.pool_sessions import measure_when_asked
from shared.settings import read_settings
from shared.tracking.rates import Rate
from shared.tracking.stores import open_clicks, open_rates
from shared.usecases.tenant_limits import WaitingLimit

_settings = read_settings("api")
assert _settings.admin_token is not None
configure_logging(service="api", log_format=_settings.log_format, level=_settings.log_level)
# Here, behind gunicorn's fork: what sends them is a thread.
with boot():
    tracing.start(_settings, service="api")
_url = _settings.database_url.reveal()
_pool = open_pool(_url, application_name=NAME, size=_settings.db_pool_size, role=API)
measure_when_asked(_pool)
with boot():
    app = create_app(
        Parts(
            sessions=_pool.connection,
            operator_sessions=operator_sessions(_url),
            admin_token=_settings.admin_token,
            clicks=open_clicks(_settings),
            public_url=_settings.public_url,
            max_body_bytes=_settings.max_body_bytes,
            max_bulk_bytes=_settings.max_bulk_bytes,
            limits=RequestLimits(
                open_rates(_settings),
                of_tenant=Rate.of(_settings.rate_limit),
                of_refusals=Rate.of(_settings.refusal_limit),
                trusted_proxies=_settings.trusted_proxies,
            ),
            waiting=WaitingLimit(_settings.max_waiting),
            sealer=_settings.sealer(),
            questions=LongQuestions(max(_settings.db_pool_size // 2, 1)),
        )
    )
    health = HealthServer(
        host=_settings.health_host,
        port=_settings.health_port,
        alive=lambda: None,
        ready=readiness_check(_pool.connection),
    )
