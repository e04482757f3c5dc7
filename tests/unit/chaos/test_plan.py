from tests.chaos.plan import kinds, plan

_RUN = {"seconds": 600.0, "count": 160, "transport": "rabbitmq", "lease_seconds": 30.0}


def test_a_seed_has_one_plan():
    assert plan(7, **_RUN) == plan(7, **_RUN)
    assert plan(7, **_RUN) != plan(8, **_RUN)


def test_every_kind_of_fault_strikes_and_none_outlasts_the_run():
    faults = plan(7, **_RUN)

    assert len(faults) == 160
    assert {one.kind for one in faults} == {
        kind.name for kind in kinds("rabbitmq", lease_seconds=30.0)
    }
    assert all(one.at >= 0 and one.at + one.seconds <= 600 for one in faults)


def test_a_short_run_has_no_fault_that_would_be_all_of_it():
    faults = plan(7, **_RUN | {"seconds": 30.0, "count": 40, "transport": "postgresql"})

    assert max(one.seconds for one in faults) <= 10
    assert "rabbit" not in {one.target for one in faults}
