"""What exists for a tenant, for the checks of actions in rules and workflows."""

from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection

from shared.domain.commands import Command
from shared.domain.records import CustomTable
from shared.domain.workflows import Workflow
from shared.queries.commands import find_command
from shared.queries.custom_tables import find_outline
from shared.queries.secrets import find_secret
from shared.queries.workflows import find_workflow


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantLookup:
    """Finds what belongs to the tenant; another tenant's is absent."""

    conn: Connection
    tenant_id: UUID

    def find_table(self, table_id: UUID) -> CustomTable | None:
        """Return the tenant's live table without its triggers, or None."""
        found = find_outline(self.conn, table_id)
        if found is None or found.trashed_at is not None or found.tenant_id != self.tenant_id:
            return None
        return found

    def find_command(self, name: str) -> Command | None:
        """Return the tenant's command, or None."""
        return find_command(self.conn, self.tenant_id, name)

    def find_workflow(self, name: str) -> Workflow | None:
        """Return the tenant's workflow, or None."""
        return find_workflow(self.conn, self.tenant_id, name)

    def has_secret(self, name: str) -> bool:
        """Return whether the tenant has a secret of this name."""
        return find_secret(self.conn, self.tenant_id, name) is not None
