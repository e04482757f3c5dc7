"""Where routes stand: the routes of a table are one list, mounted in three scopes."""

from dataclasses import dataclass

from services.api.auth import Scope
from services.api.resources.bundles import BUNDLE_ROUTES
from services.api.resources.chatrooms import CHATROOM_ROUTES
from services.api.resources.commands import COMMAND_ROUTES
from services.api.resources.events import EVENT_ROUTES
from services.api.resources.executions import EXECUTION_ROUTES
from services.api.resources.line_users import LINE_USER_ROUTES
from services.api.resources.records import RECORD_ROUTES
from services.api.resources.scheduled_actions import SCHEDULED_ACTION_ROUTES
from services.api.resources.scp_rules import SCP_RULE_ROUTES
from services.api.resources.secrets import SECRET_ROUTES
from services.api.resources.signing_keys import SIGNING_KEY_ROUTES
from services.api.resources.slots import SLOTS_PREVIEW
from services.api.resources.staged_changes import STAGED_CHANGE_ROUTES
from services.api.resources.tables import TABLE_ROUTES
from services.api.resources.tenants import TENANT_ROUTES
from services.api.resources.tick import RUN_DUE_TRIGGERS
from services.api.resources.tokens import TOKEN_ROUTES
from services.api.resources.tracking_links import TRACKING_LINK_ROUTES
from services.api.resources.trigger_questions import TRIGGER_QUESTION_ROUTES
from services.api.resources.trigger_rules import TRIGGER_RULE_ROUTES
from services.api.resources.trigger_runs import TRIGGER_RUN_ROUTES
from services.api.resources.triggers import TRIGGER_ROUTES
from services.api.resources.uploads import BULK_CREATE
from services.api.resources.workflows import WORKFLOW_ROUTES
from services.api.routes import Route


@dataclass(frozen=True, slots=True, kw_only=True)
class Mount:
    """Routes under one prefix; ``operations`` goes before their operation ids."""

    name: str
    scope: Scope
    prefix: str
    operations: str
    routes: tuple[Route, ...]

    def operation_id(self, route: Route) -> str:
        """Return the operation id of a route here, such as ``root.triggers.set``."""
        return self.operations + route.operation_id


_OF_A_TABLE = (
    *TABLE_ROUTES,
    *RECORD_ROUTES,
    BULK_CREATE,
    *SCP_RULE_ROUTES,
    *TRIGGER_ROUTES,
    SLOTS_PREVIEW,
    *TRIGGER_QUESTION_ROUTES,
    *TRIGGER_RUN_ROUTES,
    *BUNDLE_ROUTES,
    *STAGED_CHANGE_ROUTES,
)

MOUNTS = (
    Mount(
        name="root",
        scope="root",
        prefix="/root/custom-tables",
        operations="root.",
        routes=(*_OF_A_TABLE, RUN_DUE_TRIGGERS),
    ),
    Mount(
        name="tenant",
        scope="tenant",
        prefix="/tenant/custom-tables",
        operations="",
        routes=_OF_A_TABLE,
    ),
    Mount(
        name="channel",
        scope="channel",
        prefix="/channel/custom-tables",
        operations="channel.",
        routes=_OF_A_TABLE,
    ),
    Mount(
        name="tenants",
        scope="root",
        prefix="/root",
        operations="root.",
        routes=TENANT_ROUTES,
    ),
    Mount(
        name="v1",
        scope="v1",
        prefix="/v1",
        operations="",
        routes=(
            *TOKEN_ROUTES,
            *COMMAND_ROUTES,
            *CHATROOM_ROUTES,
            *SECRET_ROUTES,
            *SIGNING_KEY_ROUTES,
            *LINE_USER_ROUTES,
            *EVENT_ROUTES,
            *TRIGGER_RULE_ROUTES,
            *WORKFLOW_ROUTES,
            *EXECUTION_ROUTES,
            *TRACKING_LINK_ROUTES,
            *SCHEDULED_ACTION_ROUTES,
        ),
    ),
)
