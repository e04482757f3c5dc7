"""The application and a worker of its database, as their own tests have them."""

from tests.integration.api.conftest import (
    admin,
    app,
    caller,
    channel_moderator,
    client,
    editor,
    moderator,
    other_tenant,
    parts,
    pool,
    service,
    shared_app,
    stranger,
    tenant,
    viewer,
)
from tests.integration.worker.conftest import bench, make_bench

__all__ = [
    "admin",
    "app",
    "bench",
    "caller",
    "channel_moderator",
    "client",
    "editor",
    "make_bench",
    "moderator",
    "other_tenant",
    "parts",
    "pool",
    "service",
    "shared_app",
    "stranger",
    "tenant",
    "viewer",
]
