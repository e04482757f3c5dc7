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
            lease_seconds=15,
            round_seconds=5,
            waits=(3, 5),
            settle_seconds=240.0,
        )
    )

    # How soon all was started says nothing on a machine that does other things besides.
    broken = {breach.kind for breach in report.breaches} - {"late start"}
    assert not broken, table_of(report)
    assert not report.troubles, table_of(report)
    assert report.figures["identities"] >= 300
    assert report.figures["faults"] >= 8
