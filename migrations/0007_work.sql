-- What makes and keeps the ledger and the due index cheaper.

-- A state is never deleted, so these keys held nothing that could break; each cost every row a look at
-- the state. ``duebook doctor --verify`` asks for what they said of the ledger; an entry of the due index
-- that points nowhere is passed by.
-- squawk-ignore ban-drop-constraint
ALTER TABLE occurrence DROP CONSTRAINT occurrence_trigger_ref_fkey;
-- squawk-ignore ban-drop-constraint
ALTER TABLE due_value DROP CONSTRAINT due_value_trigger_ref_fkey;
