"""The API without a server: the same application, in this process, on a database.

The operator acts as the moderator of one tenant. Table routes are those of the root scope, which
the commands need not know.
"""

import secrets
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg_pool import ConnectionPool
from werkzeug.exceptions import HTTPException

from services.api.app import create_app
from services.api.dependencies import Parts, operator_sessions
from services.api.mounts import MOUNTS
from services.cli.calls import Api, read_answer
from shared.db.connection import open_pool
from shared.db.roles import API
from shared.errors import AppError
from shared.settings import Secret, Settings
from shared.tracking.stores import open_clicks

_TENANT_SCOPE = "/tenant/"
_ROOT_SCOPE = "/root/"
# An upload takes a session while another may still be held.
_SESSIONS = 2


class LocalApi(Api):
    """The application itself, called as the admin who names the tenant."""

    def __init__(self, settings: Settings, pool: ConnectionPool[Any], *, tenant_id: UUID) -> None:
        admin_token = secrets.token_urlsafe(32)
        super().__init__("http://localhost", headers={"X-ADMIN-TOKEN": admin_token})
        url = settings.database_url.reveal()
        self._tenant_id = tenant_id
        self._app = create_app(
            Parts(
                sessions=pool.connection,
                operator_sessions=operator_sessions(url),
                admin_token=Secret(admin_token),
                clicks=open_clicks(settings),
                public_url=settings.public_url,
                max_body_bytes=settings.max_body_bytes,
                max_bulk_bytes=settings.max_bulk_bytes,
                sealer=settings.sealer(),
            )
        )
        self._client = self._app.test_client()
        self._addresses = self._app.url_map.bind("localhost")
        self._takes_tenant = {
            f"{mount.name}.{route.operation_id.replace('.', '_')}"
            for mount in MOUNTS
            for route in mount.routes
            if "tenant" in route.query().fields
        }

    def _send(
        self,
        method: str,
        path: str,
        *,
        body: bytes | None,
        headers: Mapping[str, str],
        repeatable: bool,
    ) -> bytes:
        """Return the body of an answer that is good; nothing is tried again."""
        answer = self._client.open(
            self._address(method, path),
            method=method,
            data=body,
            headers={**self._headers, **headers},
        )
        return read_answer(answer.status_code, answer.data)

    def _address(self, method: str, address: str) -> str:
        path, _, query = address.partition("?")
        if path.startswith("/channel/"):
            raise AppError("a channel is reached over the API, with a token of its own")
        if path.startswith(_TENANT_SCOPE):
            path = _ROOT_SCOPE + path.removeprefix(_TENANT_SCOPE)
        try:
            endpoint, _ids = self._addresses.match(path, method=method)
        except HTTPException:  # the application says so
            return address
        said = [query] if query else []
        if endpoint in self._takes_tenant:
            said.append(f"tenant={self._tenant_id}")
        return f"{path}?{'&'.join(said)}"


def open_sessions(settings: Settings) -> ConnectionPool[Any]:
    """Return the sessions of a local API: those of the API's role, which the login may take."""
    url = settings.database_url.reveal()
    return open_pool(url, application_name="duebook-cli", size=_SESSIONS, role=API)
