-- Secrets may be encrypted at rest: the row names the key that encrypted it, NULL: it is in the clear.
-- And tenants have secrets of their own, by name, for the headers of calls.

ALTER TABLE signing_key ADD COLUMN sealed_with text;

-- What Fernet makes of 24 to 64 bytes has 120 to 184. A tenant has a handful of keys: read in no time.
ALTER TABLE signing_key
    -- squawk-ignore ban-drop-constraint
    DROP CONSTRAINT signing_key_secret_check,
    -- squawk-ignore constraint-missing-not-valid
    ADD CONSTRAINT a_secret_has_its_length CHECK (
        length(secret) BETWEEN 24 AND 200 AND (sealed_with IS NOT NULL OR length(secret) <= 64)
    );

GRANT INSERT (sealed_with) ON signing_key TO duebook_api;
-- Encrypts it anew under another key (`duebook secrets rotate`).
GRANT UPDATE (secret, sealed_with) ON signing_key TO duebook_worker;

CREATE TABLE secret (
    id          uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    tenant_id   uuid NOT NULL REFERENCES tenant,
    name        text NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
    value       bytea NOT NULL CHECK (length(value) BETWEEN 1 AND 8192),
    sealed_with text,
    created_at  instant NOT NULL,
    updated_at  instant NOT NULL,
    CONSTRAINT a_name_is_used_once UNIQUE (tenant_id, name)
);

CREATE POLICY of_its_tenant ON secret TO duebook_api
    USING (tenant_id = (SELECT NULLIF(current_setting('duebook.tenant', true), '')::uuid));
CREATE POLICY of_every_tenant ON secret TO duebook_scanner, duebook_worker USING (true);
ALTER TABLE secret ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;

-- The API writes values, and cannot read them back.
GRANT SELECT (id, tenant_id, name, created_at, updated_at),
    INSERT (tenant_id, name, value, sealed_with, created_at, updated_at),
    UPDATE (value, sealed_with, updated_at),
    DELETE
ON secret TO duebook_api;
GRANT SELECT, UPDATE (value, sealed_with) ON secret TO duebook_worker;
