-- Secrets may be encrypted at rest: the row names the key that encrypted it, NULL: it is in the clear.

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
