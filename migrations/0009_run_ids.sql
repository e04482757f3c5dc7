-- Which runs were made in a range, whoever's: what an API that sees one tenant's alone would have to
-- read them all for.

-- Ids are given in the order of time, but for the length of a transaction: the range of ids is found
-- by halves, with an hour to spare, so that no index by time is needed on the busiest table.
CREATE FUNCTION run_ids_within(
    from_at timestamptz, to_at timestamptz, OUT first_id bigint, OUT last_id bigint
)
LANGUAGE sql STABLE SECURITY DEFINER
BEGIN ATOMIC
    WITH RECURSIVE bound (at) AS (
        VALUES (run_ids_within.from_at - interval '1 hour'),
            (run_ids_within.to_at + interval '1 hour')
    ), search (at, low, high) AS (
        SELECT bound.at, 0::bigint, coalesce((SELECT max(id) + 1 FROM trigger_run), 0)
        FROM bound
        UNION ALL
        SELECT
            search.at,
            CASE WHEN probe.created_at < search.at THEN probe.id + 1 ELSE search.low END,
            CASE WHEN probe.created_at < search.at THEN search.high ELSE (low + high) / 2 END
        FROM search
        LEFT JOIN LATERAL (
            SELECT id, created_at
            FROM trigger_run
            WHERE id >= (search.low + search.high) / 2
            ORDER BY id
            LIMIT 1
        ) AS probe ON true
        WHERE low < high
    )
    SELECT min(low), max(low)
    FROM search
    WHERE low >= high;
END;
REVOKE ALL ON FUNCTION run_ids_within FROM PUBLIC;
GRANT EXECUTE ON FUNCTION run_ids_within TO duebook_api;
