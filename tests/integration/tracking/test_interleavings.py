"""Clicks, scheduling, expiry and the sweep in every order of their statements: one branch, once.

Every order is really run: product code, sessions of its own for each side, the real Redis. What
would break the promise stands here too, and must be caught: a check before the insert alone, a
click that is written and unlocks in one transaction, a branch decided inside the claim.
"""

import secrets
from datetime import timedelta
from functools import partial
from uuid import UUID, uuid4

import pytest

from services.worker.following import NextStep
from services.worker.holdings import Holdings
from services.worker.intake import Claimer
from shared.db.clock import server_now
from shared.domain.delays import Delay
from shared.domain.tracking import TOKEN_BYTES, link_token
from shared.domain.work import Reference
from shared.effects.delays import Watched, after_schedule, schedule, timed
from shared.lifecycle import wait_until
from shared.observability import metrics
from shared.queries import claimed_actions, claims, scheduled_actions, tracking, workflows
from shared.tracking.click_store import PostgresClicks
from shared.tracking.redis_clicks import RedisClicks
from shared.tracking.redis_line import open_redis
from shared.usecases.unlock_wait import (
    check_and_complete_delay_wait,
    sweep_clicks,
    take_click,
)
from tests.builders_db import insert_tenant, insert_worker, row_of
from tests.builders_delayed import (
    NOTIFY,
    a_new_action,
    insert_action,
    insert_click,
    insert_execution,
    insert_link,
    insert_wait,
    insert_workflow,
)
from tests.interleavings import Side, SteppedConnection, SteppedRedis, every_interleaving, step

WEEK = timedelta(days=7)

# Reads of what nobody changes, and words that nobody waits for: in whichever order they come, the
# other side meets the same.
_PASSING = (tracking._FIND_LINK, tracking._GET_LINK, workflows._NODES)


def _is_passing(statement):
    return statement in _PASSING or statement.lstrip().startswith(("NOTIFY", "SELECT clock"))


@pytest.fixture
def open_side(database_url):
    """Opens a session that stops before each statement."""
    opened = []

    def open_side():
        conn = SteppedConnection.connect(database_url, autocommit=True)
        conn.passing = _is_passing
        opened.append(conn)
        return conn

    yield open_side
    for conn in opened:
        conn.close()


class LosingClicks:
    """A store whose Redis loses the key as soon as the click is durable."""

    def __init__(self, clicks, lose):
        self._clicks = clicks
        self._lose = lose
        self.clicked_at = clicks.clicked_at

    def mark(self, conn, link, *, clicked_at):
        self._clicks.mark(conn, link, clicked_at=clicked_at)
        self._lose(link)


@pytest.fixture(params=["postgres", "redis", "redis-that-forgets"])
def clicks(request):
    """The click store that both sides use; the client of Redis stops before each command."""
    if request.param == "postgres":
        yield PostgresClicks()
        return
    url = request.getfixturevalue("redis_url")
    redis = SteppedRedis(connection_pool=open_redis(url).connection_pool)
    # A busy machine must not make Redis count as away: the orders would not repeat themselves.
    redis.connection_pool.connection_kwargs |= {"socket_timeout": 20, "socket_connect_timeout": 20}
    clicks = RedisClicks(redis, PostgresClicks(), prefix="duebook", ttl_seconds=60)
    if request.param == "redis":
        yield clicks
    else:
        yield LosingClicks(clicks, lambda link: redis.delete(f"duebook:click:{link.token}"))
    clicks.close()


@pytest.fixture
def new_link(conn):
    """Makes a link of one tenant, and returns its row."""
    tenant_id = insert_tenant(conn)

    def new_link():
        token = link_token(secrets.token_bytes(TOKEN_BYTES))
        return tracking.find_link_by_id(
            conn, tenant_id=tenant_id, link_id=insert_link(conn, tenant_id, token=token)
        )

    return new_link


@pytest.fixture
def claimer(conn, open_side):
    """A worker's claims, with a session that stops before each statement."""
    side = open_side()
    claimer = Claimer(
        lambda: side, worker_id=insert_worker(conn), holdings=Holdings(), lease_seconds=300
    )
    return side, claimer


def the_wait(conn, link):
    """Return the one row that waits, or waited, for the link."""
    rows = conn.execute(
        "SELECT id FROM scheduled_action WHERE tracking_link_id = %s", [link.id]
    ).fetchall()
    assert len(rows) == 1
    return row_of(conn, "scheduled_action", rows[0][0])


def is_unlocked(conn, link):
    wait = the_wait(conn, link)
    return (wait["status"], wait["branch"], wait["urgent"]) == ("pending", "clicked", True) and (
        wait["next_attempt_at"] <= server_now(conn).isoformat()
    )


# Click against scheduling.

NODES = (
    {"type": "action", "action": NOTIFY},
    {
        "type": "wait_for_tracking",
        "seconds": 3600,
        "link": "offer",
        "target_url": "https://example.com",
        "clicked": [],
        "not_clicked": [],
    },
)


def schedule_a_wait(conn, link, clicks, *, now, after=True):
    """What records a wait: in a transaction, and then again a look for the click."""
    delay = Delay(mode="waitForTracking", seconds=3600, tracking_link=link.token)
    request = a_new_action(link.tenant_id)
    with conn.transaction():
        schedule(conn, request, delay=delay, link_token=link.token, clicks=clicks, now=now)
    if after:
        after_schedule(conn, tenant_id=link.tenant_id, link_id=link.id, clicks=clicks)


@pytest.fixture
def click_and_schedule(conn, open_side, new_link):
    """Makes the worlds of a click and a scheduling, either of which may be another than ours."""
    clicking, scheduling = open_side(), open_side()

    def worlds(click, schedule, check):
        def world():
            link, now = new_link(), server_now(conn)
            sides = [
                Side(name="click", conn=clicking, work=lambda: click(clicking, link, now=now)),
                Side(
                    name="schedule",
                    conn=scheduling,
                    work=lambda: schedule(scheduling, link, now=now),
                ),
            ]
            return sides, lambda run: check(link, run)

        return every_interleaving(world, monitor=conn)

    return worlds


def click(side, link, *, now, clicks):
    take_click(side, link, clicked_at=now, clicks=clicks)


def test_no_order_of_click_and_scheduling_loses_the_click(conn, clicks, click_and_schedule):
    def check(link, run):
        assert is_unlocked(conn, link), run.steps

    runs = click_and_schedule(
        partial(click, clicks=clicks), partial(schedule_a_wait, clicks=clicks), check
    )

    assert len(runs) > 250


@pytest.fixture
def click_and_next_step(conn, open_side):
    """Makes the worlds of a click, and of a worker that leads a workflow on to its wait."""
    clicking, working = open_side(), open_side()
    tenant_id = insert_tenant(conn)
    workflow_id = insert_workflow(conn, tenant_id, nodes=NODES)
    worker_id = insert_worker(conn)

    def claimed_step():
        """Claim the first step of a new execution; return it and the link of the next one."""
        step = insert_execution(conn, tenant_id, workflow_id)
        token = link_token(secrets.token_bytes(TOKEN_BYTES))
        of_wait = {"execution_id": step["execution_id"], "workflow_node_path": "1"}
        link_id = insert_link(conn, tenant_id, token=token, name="offer", **of_wait)
        insert_action(conn, tenant_id, urgent=True, **step)
        lease = uuid4()
        ids = claims.claim_due_actions(
            conn,
            urgent=True,
            limit=10,
            after=None,
            worker_id=worker_id,
            lease_token=lease,
            lease_seconds=300,
        )
        loaded = claimed_actions.load_claimed(conn, ids, lease_token=lease)
        # The waits of earlier worlds, unlocked meanwhile, are due as well.
        (claimed,) = [action for action in loaded if action.execution.node_path == "0"]
        return claimed, tracking.find_link_by_id(conn, tenant_id=tenant_id, link_id=link_id)

    def worlds(clicks, *, settles, check):
        def world():
            step, link = claimed_step()
            now = server_now(conn)
            follow = NextStep(action=step, branch=None, clicks=clicks)

            def lead_on():
                with working.transaction():
                    follow.record(working)
                if settles:
                    follow.settle(working)

            return [
                Side(
                    name="click",
                    conn=clicking,
                    work=partial(click, clicking, link, now=now, clicks=clicks),
                ),
                Side(name="worker", conn=working, work=lead_on),
            ], lambda run: check(link, run)

        return every_interleaving(world, monitor=conn)

    return worlds


@pytest.mark.parametrize("settles", [True, False], ids=["lives", "dies"])
def test_no_order_of_click_and_next_step_loses_the_click(conn, click_and_next_step, settles):
    def check(link, run):
        if not settles:
            sweep_clicks(conn, limit=100)
        assert is_unlocked(conn, link), run.steps

    click_and_next_step(PostgresClicks(), settles=settles, check=check)


def test_a_scheduling_that_dies_after_its_commit_is_mended_by_one_sweep(
    conn, clicks, click_and_schedule
):
    def check(link, run):
        sweep_clicks(conn, limit=100)
        assert is_unlocked(conn, link), run.steps

    click_and_schedule(
        partial(click, clicks=clicks),
        partial(schedule_a_wait, clicks=clicks, after=False),
        check,
    )


def test_a_click_that_dies_when_it_is_durable_is_mended_by_the_scheduling_or_one_sweep(
    conn, clicks, click_and_schedule
):
    def check(link, run):
        sweep_clicks(conn, limit=100)
        assert is_unlocked(conn, link), run.steps

    click_and_schedule(
        lambda side, link, *, now: clicks.mark(side, link, clicked_at=now),
        partial(schedule_a_wait, clicks=clicks),
        check,
    )


def schedule_unguarded(side, link, *, now):
    """Record a wait after a look for the click, without a hold on the link or a second look."""
    clicked_at = tracking.find_click(side, link.id)
    delay = Delay(mode="waitForTracking", seconds=3600)
    watched = Watched(link=link, clicked_at=clicked_at)
    action = timed(a_new_action(link.tenant_id), delay, watched=watched, now=now)
    scheduled_actions.insert_actions(side, [action], now=now)


def test_a_check_before_the_insert_alone_is_caught(conn, click_and_schedule):
    """One order in six of its three marks loses the click, and nothing but luck mends that."""
    lost = []

    click_and_schedule(
        partial(click, clicks=PostgresClicks()),
        schedule_unguarded,
        lambda link, run: None if is_unlocked(conn, link) else lost.append(run),
    )

    assert lost


def test_a_check_before_the_insert_alone_is_not_mended_by_the_sweep(conn, click_and_schedule):
    """Hence the lock on the link: without it a click counts as dealt with too early."""
    lost = []

    def check(link, run):
        sweep_clicks(conn, limit=100)
        if not is_unlocked(conn, link):
            lost.append(run)

    click_and_schedule(partial(click, clicks=PostgresClicks()), schedule_unguarded, check)

    assert lost


def test_a_click_that_is_written_and_unlocks_in_one_transaction_is_caught(conn, click_and_schedule):
    lost = []

    def click_in_one(side, link, *, now):
        with side.transaction():
            tracking.record_click(side, link.id, clicked_at=now)
            tracking.unlock(side, link.id)

    click_and_schedule(
        click_in_one,
        partial(schedule_a_wait, clicks=PostgresClicks()),
        lambda link, run: None if is_unlocked(conn, link) else lost.append(run),
    )

    assert lost


# Click against expiry.

UPSERT = "INSERT INTO tracking_click AS click (link_id,"
DECIDE = "WITH held AS MATERIALIZED ( SELECT"
EARLY = -timedelta(microseconds=1)


@pytest.fixture
def expiry_and(conn, open_side, new_link, claimer):
    """Makes the worlds of a wait at its deadline: one side claims and decides it, one does more."""
    other, (claiming, worker) = open_side(), claimer

    def worlds(work, check, *, clicked=None):
        def world():
            link, deadline = new_link(), server_now(conn)
            wait_id = insert_wait(
                conn, link.tenant_id, expires_at=deadline, tracking_link_id=link.id
            )
            if clicked is not None:
                insert_click(conn, link.id, clicked_at=deadline + clicked)
            wait = row_of(conn, "scheduled_action", wait_id)
            reference = Reference(id=wait_id, token=UUID(wait["lease_token"]))
            sides = [
                Side(name="more", conn=other, work=lambda: work(other, link, deadline=deadline)),
                Side(
                    name="expiry",
                    conn=claiming,
                    work=lambda: worker.claim("scheduled_action", [reference]),
                ),
            ]
            return sides, lambda run: check(link, run)

        return every_interleaving(world, monitor=conn)

    def branch_of(link):
        """Return the branch that the wait took; whoever looks again leaves it so."""
        wait = the_wait(conn, link)
        if wait["branch"] is None:
            reference = Reference(id=wait["id"], token=UUID(wait["lease_token"]))
            worker.claim("scheduled_action", [reference])
            wait = the_wait(conn, link)
        sweep_clicks(conn, limit=100)
        scheduled_actions.decide_branches(conn, [(wait["id"], UUID(wait["lease_token"]))])
        assert the_wait(conn, link)["branch"] == wait["branch"]
        return wait["branch"]

    return worlds, branch_of


def test_a_click_before_the_deadline_wins_if_it_is_durable_when_expiry_decides(expiry_and, clicks):
    worlds, branch_of = expiry_and
    taken = set()

    def check(link, run):
        wins = run.is_before(("more", UPSERT), ("expiry", DECIDE))
        branch = branch_of(link)
        taken.add(branch)
        assert branch == ("clicked" if wins else "expired"), run.steps

    worlds(
        lambda side, link, *, deadline: click(side, link, now=deadline + EARLY, clicks=clicks),
        check,
    )

    assert taken == {"clicked", "expired"}


def test_a_click_exactly_at_the_deadline_is_late_in_every_order(expiry_and, clicks):
    worlds, branch_of = expiry_and

    def check(link, run):
        assert branch_of(link) == "expired", run.steps

    worlds(lambda side, link, *, deadline: click(side, link, now=deadline, clicks=clicks), check)


def test_expiry_and_a_late_unlock_both_give_a_click_in_time_its_branch(expiry_and):
    worlds, branch_of = expiry_and

    def check(link, run):
        assert branch_of(link) == "clicked", run.steps

    worlds(
        lambda side, link, *, deadline: check_and_complete_delay_wait(side, link.id),
        check,
        clicked=EARLY,
    )


def test_two_clicks_unlock_once(conn, clicks, open_side, new_link):
    sides = [open_side(), open_side()]

    def world():
        link, now = new_link(), server_now(conn)
        insert_wait(conn, link.tenant_id, expires_at=now + WEEK, tracking_link_id=link.id)
        unlocked = metrics.WAITS_UNLOCKED._value.get()

        def check(run):
            assert is_unlocked(conn, link), run.steps
            assert metrics.WAITS_UNLOCKED._value.get() == unlocked + 1, run.steps
            assert tracking.find_click(conn, link.id) == now

        return [
            Side(name=name, conn=side, work=partial(click, side, link, now=now, clicks=clicks))
            for name, side in zip(("one", "other"), sides, strict=True)
        ], check

    every_interleaving(world, monitor=conn)


# A decision inside the claim. Its snapshot is older than the clock that it reads: here it is held
# up for so long that one can see it, as a large batch on a busy machine holds up its last row.

SLOW_CLAIM = """
WITH held_up AS MATERIALIZED (
    SELECT pg_advisory_xact_lock_shared(%(link_id)s)
), due AS MATERIALIZED (
    SELECT action.id
    FROM held_up CROSS JOIN scheduled_action AS action
    WHERE action.tracking_link_id = %(link_id)s
        AND action.status = 'pending'
        AND action.next_attempt_at <= clock_timestamp()
    FOR UPDATE OF action SKIP LOCKED
)
UPDATE scheduled_action AS wait
SET status = 'processing', worker_id = 1, next_attempt_at = NULL, announce_at = NULL,
    leased_until = clock_timestamp() + interval '5 minutes', lease_token = %(lease)s
"""
DECIDING = """, branch = coalesce(branch, CASE WHEN EXISTS (
        SELECT FROM tracking_click AS click
        WHERE click.link_id = wait.tracking_link_id AND click.first_clicked_at < wait.expires_at
    ) THEN 'clicked' ELSE 'expired' END)
"""
OF_DUE = "FROM due WHERE wait.id = due.id RETURNING wait.id"


def claim_slowly(side, link, *, deciding):
    statement = SLOW_CLAIM + (DECIDING if deciding else "") + OF_DUE
    lease = uuid4()
    claimed = side.execute(statement, {"link_id": link.id, "lease": lease}).fetchall()
    if claimed and not deciding:
        scheduled_actions.decide_branches(side, [(id, lease) for (id,) in claimed])


@pytest.fixture
def clicks_lost_at_a_slow_claim(conn, open_side, new_link):
    """Returns the orders in which a click that was durable before the deadline did not win."""
    clicking, claiming, holding = open_side(), open_side(), open_side()
    lost = []

    def hold_up(link, deadline):
        with holding.transaction():
            holding.execute("SELECT pg_advisory_xact_lock(%s)", [link.id])
            step("the deadline passes")
            assert wait_until(lambda: server_now(conn) > deadline, seconds=10)

    def run_all(*, deciding):
        def world():
            link = new_link()
            clicked_at = server_now(conn)
            deadline = clicked_at + timedelta(milliseconds=100)
            insert_wait(conn, link.tenant_id, expires_at=deadline, tracking_link_id=link.id)
            durable_at = []

            def click_it():  # its unlock is late: it alone could not mend what a claim decided
                PostgresClicks().mark(clicking, link, clicked_at=clicked_at)
                durable_at.append(server_now(clicking))

            sides = [
                Side(name="click", conn=clicking, work=click_it),
                Side(
                    name="claim",
                    conn=claiming,
                    work=partial(claim_slowly, claiming, link, deciding=deciding),
                ),
                Side(name="hold", conn=holding, work=partial(hold_up, link, deadline)),
            ]

            def check(run):
                claim_slowly(conn, link, deciding=deciding)
                branch = the_wait(conn, link)["branch"]
                assert branch is not None
                if durable_at[0] < deadline and branch != "clicked":
                    lost.append(run)

            return sides, check

        every_interleaving(world, monitor=conn)
        return lost

    return run_all


def test_a_branch_that_is_decided_inside_the_claim_is_caught(clicks_lost_at_a_slow_claim):
    assert clicks_lost_at_a_slow_claim(deciding=True)


def test_a_branch_that_is_decided_after_the_claim_loses_no_click(clicks_lost_at_a_slow_claim):
    assert clicks_lost_at_a_slow_claim(deciding=False) == []
