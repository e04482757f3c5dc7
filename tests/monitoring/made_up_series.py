"""A made-up past for each alarm: one of which it tells, and one of which it does not."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """Samples a minute apart, and whether the alarm is heard ``at`` the end.

    ``labels`` are those that the alarm has beside its severity.
    """

    alert: str
    fires: bool
    series: dict[str, str]
    at: str = "30m"
    labels: dict[str, str] = field(default_factory=dict)


def _pair(alert, *, loud, quiet, at="30m", labels=None):
    yield Past(alert=alert, fires=True, series=loud, at=at, labels=labels or {})
    yield Past(alert=alert, fires=False, series=quiet, at=at)


_REQUESTS = 'duebook_request_seconds_count{{method="GET",route="/v1/events",status="{}"}}'
_LATENESS = 'duebook_lateness_seconds_bucket{{le="{}"}}'

PASTS = [
    *_pair(
        "DuebookTickSilent",
        loud={"duebook_ticks_total": "0+1x5 5x30"},
        quiet={"duebook_ticks_total": "0+1x40"},
    ),
    # Without any scanner there is no such series.
    Past(alert="DuebookTickSilent", fires=True, series={"duebook_redis_away": "0x40"}),
    # One of two scanners is enough.
    Past(
        alert="DuebookTickSilent",
        fires=False,
        series={
            'duebook_ticks_total{instance="a"}': "7x40",
            'duebook_ticks_total{instance="b"}': "0+1x40",
        },
    ),
    *_pair(
        "DuebookTickFailing",
        loud={'duebook_tick_failures_total{part="sweep"}': "0+1x40"},
        quiet={'duebook_tick_failures_total{part="sweep"}': "0x20 1x20"},
        labels={"part": "sweep"},
    ),
    *_pair(
        "DuebookScannerBehind",
        loud={'duebook_scan_lag_seconds{instance="s"}': "60+60x40"},
        quiet={'duebook_scan_lag_seconds{instance="s"}': "60x25 700x5"},
        labels={"instance": "s"},
    ),
    *_pair(
        "DuebookScheduleSilent",
        loud={"duebook_silent_schedules": "0x10 2x30"},
        quiet={"duebook_silent_schedules": "0x27 2x3"},
    ),
    *_pair(
        "DuebookDueRowOld",
        loud={"duebook_oldest_due_seconds": "0+60x40"},
        quiet={"duebook_oldest_due_seconds": "0x20 280x20"},
    ),
    *_pair(
        "DuebookClaimsWait",
        loud={'duebook_oldest_unstarted_claim_seconds{instance="w"}': "0+30x40"},
        quiet={'duebook_oldest_unstarted_claim_seconds{instance="w"}': "1x26 90x4"},
        labels={"instance": "w"},
    ),
    # A worker freezes after ten minutes: it is taken for lost at the end of its leases.
    Past(
        alert="DuebookWorkerSilent",
        fires=True,
        series={"duebook_oldest_silent_claim_seconds": "15x10 0+60x5 0x20"},
        at="15m",
    ),
    Past(
        alert="DuebookWorkerSilent",
        fires=False,
        series={"duebook_oldest_silent_claim_seconds": "15x10 0+60x5 0x20"},
    ),
    *_pair(
        "DuebookStartsLate",
        loud={
            _LATENESS.format("60"): "0+90x40",
            _LATENESS.format("300"): "0+99x40",
            _LATENESS.format("+Inf"): "0+100x40",
        },
        quiet={_LATENESS.format("60"): "0+99x40", _LATENESS.format("+Inf"): "0+100x40"},
    ),
    *_pair(
        "DuebookTriggerFailing",
        loud={"duebook_failing_triggers": "0x10 1x30"},
        quiet={"duebook_failing_triggers": "0x40"},
    ),
    *_pair(
        "DuebookDeadLetters",
        loud={'duebook_queue_depth{queue="action_execute.dead"}': "0x20 1x20"},
        quiet={
            'duebook_queue_depth{queue="action_execute"}': "5x40",
            "duebook_dead_lettered_total": "3x40",
        },
        labels={"queue": "action_execute.dead"},
    ),
    Past(
        alert="DuebookDeadLetters",
        fires=True,
        series={"duebook_dead_lettered_total": "0x20 1x20"},
    ),
    *_pair(
        "DuebookWorkersLost",
        loud={"duebook_worker_losses_total": "0+1x60"},
        quiet={"duebook_worker_losses_total": "0x20 16x40"},
        at="45m",
    ),
    *_pair(
        "DuebookClockOff",
        loud={'duebook_clock_ahead_seconds{instance="a"}': "-45x40"},
        quiet={'duebook_clock_ahead_seconds{instance="a"}': "-3x40"},
        labels={"instance": "a"},
    ),
    *_pair(
        "DuebookTransactionOpen",
        loud={"duebook_oldest_transaction_seconds": "0+60x40"},
        quiet={"duebook_oldest_transaction_seconds": "0+60x14 0x30"},
    ),
    *_pair(
        "DuebookPoolShort",
        loud={'duebook_pool_sessions{instance="w",state="waiting"}': "3x40"},
        quiet={
            'duebook_pool_sessions{instance="w",state="waiting"}': "3 0 3 0 3 0x40",
            'duebook_pool_sessions{instance="w",state="in_use"}': "16x40",
        },
        labels={"instance": "w"},
    ),
    # A pool that is short is told of by its process, whatever the others have.
    Past(
        alert="DuebookPoolShort",
        fires=True,
        series={
            'duebook_pool_sessions{job="main",instance="a",state="waiting"}': "2x40",
            'duebook_pool_sessions{job="trigger-worker",instance="w",state="waiting"}': "0x40",
        },
        labels={"instance": "a"},
    ),
    *_pair(
        "DuebookRequestsFailing",
        loud={_REQUESTS.format("200"): "0+90x40", _REQUESTS.format("503"): "0+10x40"},
        quiet={
            _REQUESTS.format("200"): "0+90x40",
            _REQUESTS.format("404"): "0+50x40",
            _REQUESTS.format("500"): "0+1x40",
        },
    ),
    *_pair(
        "DuebookRedisAway",
        loud={'duebook_redis_away{instance="a"}': "1x40"},
        quiet={'duebook_redis_away{instance="a"}': "0x20 1x10"},
    ),
]
