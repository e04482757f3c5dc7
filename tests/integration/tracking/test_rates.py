"""Buckets of tokens: in this process, in Redis, and in this process while Redis is away."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.observability import metrics
from shared.settings import read_settings
from shared.tracking import rates as module
from shared.tracking.rates import LocalRates, Rate
from shared.tracking.redis_line import open_redis
from shared.tracking.redis_rates import RedisRates
from shared.tracking.stores import open_rates

# So slow that none comes back while a test runs.
RATE = Rate(per_minute=1, burst=25)


@pytest.fixture
def in_redis(redis_url):
    """Make the buckets of one more process that shares a Redis."""
    opened = []

    def make(*, prefix="duebook"):
        opened.append(open_redis(redis_url))
        return RedisRates(opened[-1], LocalRates(), prefix=prefix)

    yield make
    for redis in opened:
        redis.close()


@pytest.fixture(params=["local", "redis"])
def rates(request):
    return LocalRates() if request.param == "local" else request.getfixturevalue("in_redis")()


@pytest.fixture
def name():
    return uuid4().hex


def taken(rates, name, *, tries, rate=RATE):
    return [rates.take(name, rate) for _ in range(tries)]


def test_as_many_as_the_burst_pass_and_no_more(rates, name):
    assert taken(rates, name, tries=25) == [0.0] * 25

    assert all(50 < wait <= 60 for wait in taken(rates, name, tries=5))


def test_looking_takes_nothing(rates, name):
    assert {rates.wait(name, RATE) for _ in range(50)} == {0.0}

    taken(rates, name, tries=25)
    assert 50 < rates.wait(name, RATE) <= 60


def test_names_do_not_share(rates, name):
    taken(rates, name, tries=25)

    assert rates.take(f"{name}-other", RATE) == 0.0


def test_a_rate_that_became_higher_counts_at_once(rates, name):
    taken(rates, name, tries=25)

    assert rates.take(name, Rate(per_minute=6000, burst=1000)) <= 0.01


def test_threads_take_exactly_the_burst(rates, name):
    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda _: rates.take(name, RATE), range(100)))

    assert waits.count(0.0) == 25


def test_processes_that_share_a_redis_share_the_bucket(in_redis, name):
    several = [in_redis() for _ in range(3)]

    with ThreadPoolExecutor(16) as pool:
        waits = list(pool.map(lambda n: several[n % 3].take(name, RATE), range(100)))

    assert waits.count(0.0) == 25


def test_installations_that_share_a_redis_do_not_share_buckets(in_redis, name):
    ours, theirs = in_redis(), in_redis(prefix="staging")
    taken(ours, name, tries=25)

    assert theirs.take(name, RATE) == 0.0
    assert ours.take(name, RATE) > 0


def test_redis_forgets_a_bucket_that_is_full_again(in_redis, name, redis_url):
    in_redis().take(name, Rate(per_minute=60_000, burst=1000))

    with open_redis(redis_url) as redis:
        assert 0 <= redis.pttl(f"duebook:rate:{name}") <= 1 or not redis.exists(
            f"duebook:rate:{name}"
        )


@pytest.mark.parametrize("value", [b"9e99", b"no number", b"-1", b"inf", b"nan"])
def test_what_somebody_wrote_into_redis_holds_nobody_up_for_long(in_redis, name, redis_url, value):
    with open_redis(redis_url) as redis:
        redis.set(f"duebook:rate:{name}", value)

    assert in_redis().take(name, RATE) <= 60


def test_without_redis_each_process_counts_by_itself(restartable_redis, name, capsys):
    redis = open_redis(restartable_redis.url)
    rates = RedisRates(redis, LocalRates(), prefix="duebook")
    assert rates.take(name, RATE) == 0.0
    restartable_redis.stop()
    unanswered = metrics.REDIS_UNANSWERED._value.get()

    waits = taken(rates, name, tries=30)

    assert waits.count(0.0) == 25
    assert metrics.REDIS_UNANSWERED._value.get() == unanswered + 30
    assert capsys.readouterr().out.count("redis_lost") == 1
    redis.close()


def test_names_that_say_nothing_are_forgotten(monkeypatch):
    monkeypatch.setattr(module, "_MAX_NAMES", 10)
    rates = LocalRates()
    for number in range(10):
        rates.take_at(f"old {number}", RATE, now=0.0)

    rates.take_at("new", RATE, now=61.0)

    assert set(rates._full_at) == {"new"}


def test_a_flood_of_names_keeps_the_younger_half(monkeypatch):
    monkeypatch.setattr(module, "_MAX_NAMES", 10)
    rates = LocalRates()
    for number in range(11):
        rates.take_at(f"{number}", RATE, now=0.0)

    assert set(rates._full_at) == {"5", "6", "7", "8", "9", "10"}


@given(
    gaps=st.lists(st.floats(0, 30, allow_nan=False), min_size=1, max_size=60),
    per_minute=st.integers(1, 600),
    burst=st.integers(1, 20),
)
def test_no_span_of_time_has_more_than_the_burst_and_what_came_back(gaps, per_minute, burst):
    rates, rate = LocalRates(), Rate(per_minute=per_minute, burst=burst)
    now, passed = 0.0, []
    for gap in gaps:
        now += gap
        if rates.take_at("a", rate, now=now) == 0.0:
            passed.append(now)

    assert passed[0] == gaps[0]
    for first, start in enumerate(passed):
        for last in range(first, len(passed)):
            allowed = burst + (passed[last] - start) / rate.interval
            assert last - first + 1 <= allowed + 1e-6


def test_who_waits_as_long_as_told_is_taken():
    rates = LocalRates()
    for _ in range(25):
        rates.take_at("a", RATE, now=0.0)
    wait = rates.take_at("a", RATE, now=0.0)

    assert rates.take_at("a", RATE, now=wait - 0.001) > 0
    assert rates.take_at("a", RATE, now=wait + 0.001) == 0.0


@pytest.mark.parametrize(("per_minute", "burst"), [(12_000, 2000), (60, 10), (1, 10)])
def test_a_rate_bursts_by_ten_seconds_worth(per_minute, burst):
    assert Rate.of(per_minute) == Rate(per_minute=per_minute, burst=burst)


def test_no_rate_is_no_limit():
    assert Rate.of(0) is None


def test_settings_choose_where_is_counted(monkeypatch, redis_url, name):
    monkeypatch.setenv("DATABASE_URL", "postgresql://db/duebook")
    monkeypatch.delenv("REDIS_URL", raising=False)
    assert isinstance(open_rates(read_settings("worker")), LocalRates)

    monkeypatch.setenv("REDIS_URL", redis_url)
    assert open_rates(read_settings("worker")).take(name, RATE) == 0.0
    monkeypatch.setenv("REDIS_PREFIX", "staging")
    assert open_rates(read_settings("worker")).take(name, RATE) == 0.0
    with open_redis(redis_url) as redis:
        assert redis.exists(f"duebook:rate:{name}", f"staging:rate:{name}") == 2
