-- Which chatrooms of a channel may do what with a table's records; and the roster that a slot is of.

-- Told by the table's own row, so that whoever holds its lock knows, and no release can store both.
ALTER TABLE custom_table ADD COLUMN scp_ruled boolean NOT NULL DEFAULT false;
ALTER TABLE custom_table ADD CONSTRAINT rules_and_triggers_exclude_each_other CHECK (
    NOT scp_ruled OR triggers IS NULL OR triggers = '[]'
) NOT VALID;
ALTER TABLE custom_table ADD CONSTRAINT rules_are_of_a_channel CHECK (
    NOT scp_ruled OR channel_id IS NOT NULL
) NOT VALID;

-- Replaced as a whole; the table's revision is theirs.
CREATE TABLE scp_rule (
    tenant_id  uuid NOT NULL,
    table_id   uuid NOT NULL,
    position   smallint NOT NULL CHECK (position >= 0),
    operations text[] NOT NULL CHECK (
        operations <@ ARRAY['read', 'create', 'update', 'delete'] AND cardinality(operations) > 0
    ),
    chatrooms  uuid[] NOT NULL CHECK (cardinality(chatrooms) > 0),
    PRIMARY KEY (table_id, position),
    FOREIGN KEY (tenant_id, table_id) REFERENCES custom_table (tenant_id, id)
);

-- A slot's key is in origin_key: of whichever roster, a resource has one slot at a time.
ALTER TABLE record ADD COLUMN roster_id uuid;  -- the table whose line a slot was made from; NULL: no slot
ALTER TABLE record ADD CONSTRAINT a_slot_is_of_a_roster
    FOREIGN KEY (tenant_id, roster_id) REFERENCES custom_table (tenant_id, id) NOT VALID;
