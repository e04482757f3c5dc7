"""A short run of ``make chaos``: whatever strikes, no promise is broken."""

from tests.chaos.run import Options, run, table_of

_SEED = 5


def test_nothing_is_lost_or_doubled_whatever_strikes(tmp_path):
    report = run(
        Options(
            seed=_SEED,
            transport="postgresql",
            identities=300,
            seconds=14.0,
            faults=9,
            folder=tmp_path,
            lease_seconds=12,
            round_seconds=5,
            waits=(3, 5),
            settle_seconds=240.0,
        )
    )

    assert report.is_sound, table_of(report)
    assert report.figures["identities"] >= 300
    assert report.figures["faults"] >= 8
