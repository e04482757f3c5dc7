"""A fair batch: the oldest of what waits, each tenant in turn, from one place in each index.

Rows of work, changes that were approved and entries of the due index are taken so.
"""

from dataclasses import dataclass

# One batch looks at up to 1000 tenants in circular order and takes their oldest rows in turn. The
# inner limit bounds the work when many tenants have much, so the batch may come back short. Asked
# for one tenant by =, the planner may read the whole table for each, or all that is due: places in
# the order of the index leave it no choice.
_FAIR_TURNS = """
WITH circle AS (
    (SELECT 0 AS lap, id FROM tenant WHERE id > %(after)s ORDER BY id LIMIT 1000)
    UNION ALL
    (SELECT 1 AS lap, id FROM tenant WHERE id <= %(after)s ORDER BY id LIMIT 1000)
    ORDER BY lap, id
    LIMIT 1000
), waiting AS MATERIALIZED (
    SELECT circle.id AS tenant_id, %(limit)s::bigint * 10 / count(*) OVER () + 1 AS share
    FROM circle
    CROSS JOIN LATERAL (
        SELECT {group}, {at}
        FROM {table}
        WHERE {waits} AND ({group}, {at}) >= (circle.id{rest}, '-infinity'::timestamptz)
        ORDER BY {group}, {at}
        LIMIT 1
    ) AS oldest
    WHERE ({group}) = (circle.id{rest}) AND {at} <= {now}
), candidates AS MATERIALIZED (
    SELECT {keys}
    FROM waiting
    CROSS JOIN LATERAL (
        SELECT {keys}, {at}, row_number() OVER (ORDER BY {group}, {at}, {keys}) AS turn
        FROM {table}
        WHERE {waits}
            AND ({group}, {at}) >= (waiting.tenant_id{rest}, '-infinity'::timestamptz)
            AND ({group}, {at}) <= (waiting.tenant_id{rest}, {now})
        ORDER BY {group}, {at}, {keys}
        LIMIT least(waiting.share, %(limit)s)
    ) AS turns
    ORDER BY turn, {at}, {keys}
    LIMIT %(limit)s
), """


@dataclass(frozen=True, slots=True, kw_only=True)
class Index:
    """The index in whose order rows wait: of a ``group``, by ``at``; the tenant is its first.

    ``rest`` are the values of the group behind the tenant, each with a comma before it.
    """

    table: str
    waits: str
    group: str = "tenant_id"
    rest: str = ""
    at: str
    keys: str


def fair_turns(index: Index, *, now: str) -> str:
    """Return the beginning of a statement that goes on with what it makes of ``candidates``.

    These have the keys of up to ``limit`` rows, of up to 1000 tenants behind ``after``. ``now`` is
    an expression; the index may leave ``{table}`` open.
    """
    return _FAIR_TURNS.format(
        table=index.table,
        waits=index.waits,
        group=index.group,
        rest=index.rest,
        at=index.at,
        keys=index.keys,
        now=now,
    )
