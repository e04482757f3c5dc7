-- One role for each service, and rows of one tenant alone for the API.
--
-- A login of the API is a member of duebook_api, and so on; its sessions take that role as they
-- begin. The owner of the tables is a member of all three: on a small installation it is the one
-- login of everything, and the release that runs beside this migration uses it as it is. Who only
-- owns the tables sees no row of them (FORCE).

DO $$
DECLARE
    service text;
    owner   text;
    needs   text := CASE WHEN current_setting('server_version_num')::int < 160000
                         THEN 'MEMBER' ELSE 'SET' END;
BEGIN
    SELECT tableowner INTO STRICT owner
    FROM pg_tables
    WHERE schemaname = current_schema() AND tablename = 'custom_table';

    FOREACH service IN ARRAY ARRAY['duebook_api', 'duebook_scanner', 'duebook_worker'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = service) THEN
            BEGIN
                EXECUTE format('CREATE ROLE %I NOLOGIN', service);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                NULL;  -- another database of this server was migrated at the same time
            END;
        END IF;
        IF NOT (pg_has_role(owner, service, 'USAGE') AND pg_has_role(owner, service, needs)) THEN
            EXECUTE format('GRANT %I TO %I', service, owner);
        END IF;
    END LOOP;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE EXCEPTION USING
        ERRCODE = 'insufficient_privilege',
        MESSAGE = format('the role %I may not make the roles of the services, or not grant them; '
            'let a superuser run what follows, then migrate again: ', current_user)
            || 'CREATE ROLE duebook_api NOLOGIN; CREATE ROLE duebook_scanner NOLOGIN; '
            || 'CREATE ROLE duebook_worker NOLOGIN; '
            || format('GRANT duebook_api, duebook_scanner, duebook_worker TO %I;', owner);
END
$$;

-- Every table of tenants. Without a tenant the setting is NULL, or empty after the transaction that
-- had one: no row then. The sub-select is asked once for a statement.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'backlog', 'chat_message', 'command', 'custom_table', 'definition', 'due_value', 'event',
        'fresh_value', 'held_value', 'line_user', 'record', 'scheduled_action', 'scp_rule',
        'signing_key', 'staged_change', 'trigger_rule', 'trigger_run', 'trigger_state', 'workflow',
        'workflow_execution', 'workflow_version'
    ] LOOP
        EXECUTE format($policy$
            CREATE POLICY of_its_tenant ON %I TO duebook_api
            USING (tenant_id = (SELECT NULLIF(current_setting('duebook.tenant', true), '')::uuid))
        $policy$, name);
    END LOOP;
END
$$;

-- The admin's own keys have no tenant, and are met without one.
CREATE POLICY of_its_tenant ON idempotent_answer TO duebook_api
    USING (tenant_id IS NOT DISTINCT FROM
        (SELECT NULLIF(current_setting('duebook.tenant', true), '')::uuid));

-- The ledger names no tenant: its triggers do.
CREATE POLICY of_its_tenant ON occurrence TO duebook_api
    USING (EXISTS (SELECT FROM trigger_state WHERE trigger_state.id = trigger_ref));

-- By their nature across tenants.
DO $$
DECLARE
    name text;
BEGIN
    FOR name IN
        SELECT tablename FROM pg_policies
        WHERE schemaname = current_schema() AND policyname = 'of_its_tenant'
        ORDER BY tablename
    LOOP
        EXECUTE format('CREATE POLICY of_every_tenant ON %I TO duebook_scanner, duebook_worker USING (true)', name);
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', name);
    END LOOP;
END
$$;

-- Whose a table is, and whether it is in the trash: what tells "of another tenant" from "absent",
-- and in which tenant the admin acts who names a table alone.
CREATE FUNCTION whose_table(
    table_id uuid, OUT tenant_id uuid, OUT channel_id uuid, OUT is_trashed boolean
)
RETURNS SETOF record
LANGUAGE sql STABLE SECURITY DEFINER
BEGIN ATOMIC
    SELECT custom_table.tenant_id, custom_table.channel_id, custom_table.trashed_at IS NOT NULL
    FROM custom_table
    WHERE custom_table.id = whose_table.table_id;
END;
REVOKE ALL ON FUNCTION whose_table FROM PUBLIC;
GRANT EXECUTE ON FUNCTION whose_table TO duebook_api;

-- The records of a table that the caller has seen. The policy would have every row asked for its
-- tenant, which the index does not have: that is twice the time. Without a sequential scan, which for
-- one table among several reads them all.
CREATE FUNCTION count_live_records(table_id uuid) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET enable_seqscan = off
BEGIN ATOMIC
    SELECT count(*)
    FROM record
    WHERE record.table_id = count_live_records.table_id AND record.deleted_at IS NULL;
END;
REVOKE ALL ON FUNCTION count_live_records FROM PUBLIC;
GRANT EXECUTE ON FUNCTION count_live_records TO duebook_api;

GRANT SELECT ON schema_migration TO duebook_api, duebook_scanner, duebook_worker;

GRANT SELECT, INSERT, UPDATE ON
    tenant, api_token, idempotent_answer, custom_table, record, trigger_state, line_user, event,
    workflow, tracking_link, tracking_click, scheduled_action, staged_change
TO duebook_api;
GRANT SELECT, INSERT, UPDATE, DELETE ON
    command, trigger_rule, trigger_run, due_value, backlog, fresh_value, held_value
TO duebook_api;
GRANT SELECT, INSERT, DELETE ON scp_rule TO duebook_api;
GRANT SELECT, INSERT ON definition, workflow_version, workflow_execution, occurrence TO duebook_api;
GRANT SELECT ON chat_message TO duebook_api;
-- It makes the keys that sign webhooks, and cannot read them back.
GRANT SELECT (id, tenant_id, created_at, expires_at),
    INSERT (tenant_id, secret, created_at),
    UPDATE (expires_at)
ON signing_key TO duebook_api;

GRANT SELECT ON
    tenant, custom_table, record, trigger_state, due_value, occurrence, definition, trigger_run, event,
    scheduled_action, workflow_execution, tracking_link, tracking_click, staged_change,
    idempotent_answer, worker, backlog, fresh_value, held_value
TO duebook_scanner;
GRANT INSERT ON due_value, occurrence, definition, trigger_run, held_value TO duebook_scanner;
-- To lock a row is to be allowed to change it.
GRANT UPDATE ON
    custom_table, trigger_state, due_value, trigger_run, scheduled_action, tracking_link,
    tracking_click, staged_change, worker, backlog, held_value
TO duebook_scanner;
GRANT DELETE ON
    due_value, trigger_run, event, scheduled_action, workflow_execution, staged_change,
    idempotent_answer, worker, backlog, fresh_value, held_value
TO duebook_scanner;

GRANT SELECT ON
    tenant, custom_table, record, trigger_state, due_value, definition, trigger_run, line_user, command,
    workflow, workflow_version, workflow_execution, scheduled_action, tracking_link, tracking_click,
    staged_change, chat_message, signing_key, worker, backlog, fresh_value
TO duebook_worker;
GRANT INSERT ON
    record, due_value, definition, trigger_run, workflow_execution, scheduled_action, tracking_link,
    tracking_click, staged_change, chat_message, worker, fresh_value, occurrence
TO duebook_worker;
GRANT UPDATE ON
    record, due_value, trigger_run, scheduled_action, tracking_link, tracking_click, staged_change,
    worker
TO duebook_worker;
GRANT DELETE ON due_value TO duebook_worker;
