"""Frozen definitions: what runs execute, stored once per tenant under the hash of its content."""

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from psycopg import Connection
from psycopg.types.json import Jsonb

from shared.domain.columns import Column, column_from_json

_STORE_DEFINITION = """
INSERT INTO definition (tenant_id, hash, body)
VALUES (%(tenant_id)s, %(hash)s, %(body)s)
ON CONFLICT DO NOTHING
"""


def store_definition(
    conn: Connection, *, tenant_id: UUID, hash: bytes, body: Mapping[str, Any]
) -> None:
    """Store a definition, unless it is stored; then runs may name its hash."""
    parameters = {"tenant_id": tenant_id, "hash": hash, "body": Jsonb(body)}
    conn.execute(_STORE_DEFINITION, parameters)


_LIST_DEFINITIONS = """
SELECT definition.tenant_id, definition.hash, definition.body
FROM unnest(%(tenant_ids)b::uuid[], %(hashes)b::bytea[]) AS wanted (tenant_id, hash)
JOIN definition USING (tenant_id, hash)
"""


def list_definitions(
    conn: Connection, keys: Sequence[tuple[UUID, bytes]]
) -> dict[tuple[UUID, bytes], dict[str, Any]]:
    """Return the bodies of these definitions (tenant, hash), in no order."""
    rows = conn.execute(_LIST_DEFINITIONS, _parameters(keys))
    return {(tenant_id, bytes(hash)): body for tenant_id, hash, body in rows}


_LIST_FROZEN_COLUMNS = """
SELECT definition.tenant_id, definition.hash, definition.body -> 'columns'
FROM unnest(%(tenant_ids)b::uuid[], %(hashes)b::bytea[]) AS wanted (tenant_id, hash)
JOIN definition USING (tenant_id, hash)
"""


def list_frozen_columns(
    conn: Connection, keys: Sequence[tuple[UUID, bytes]]
) -> dict[tuple[UUID, bytes], tuple[Column, ...]]:
    """Return the columns of these definitions (tenant, hash), in no order."""
    rows = conn.execute(_LIST_FROZEN_COLUMNS, _parameters(keys))
    return {
        (tenant_id, bytes(hash)): tuple(map(column_from_json, columns))
        for tenant_id, hash, columns in rows
    }


def _parameters(keys: Sequence[tuple[UUID, bytes]]) -> dict[str, Any]:
    return {
        "tenant_ids": [tenant_id for tenant_id, _ in keys],
        "hashes": [hash for _, hash in keys],
    }
