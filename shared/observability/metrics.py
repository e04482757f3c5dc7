"""Every counter, gauge and histogram of the product, declared in one place.

A process counts only what it does itself; names and labels are public, as dashboards use them.
docs/metrics.md is written from here (`make docs`).
"""

from dataclasses import dataclass
from typing import Literal, TypeVar

from prometheus_client import Counter, Gauge, Histogram

Measurer = Literal["API", "scanner", "worker"]
_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """A metric, which services measure it, and what its values mean to an operator."""

    metric: Counter | Gauge | Histogram
    services: tuple[Measurer, ...]
    note: str


DECLARED: list[Declared] = []


def _declared(metric: _Metric, *services: Measurer, note: str) -> _Metric:
    DECLARED.append(Declared(metric=metric, services=services, note=note))
    return metric


# Seconds. The fine end shows an idle system at work, the coarse end an outage.
_LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
_DURATION = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30)

TICKS = _declared(
    Counter("duebook_ticks", "Rounds of the scanner that came to their end."),
    "scanner",
    note="Standing still means that nothing comes due by the walk.",
)
TICK_FAILURES = _declared(
    Counter("duebook_tick_failures", "Parts of a round that failed; the round went on.", ["part"]),
    "scanner",
    note=(
        "`part` is a part of the scanner, or `table`, `trigger`, `record`, `due_dates` for "
        "one that was passed over; the log names it."
    ),
)
TICK_SECONDS = _declared(
    Histogram(
        "duebook_tick_seconds",
        "Duration of a round of the scanner, without the pause behind it.",
        buckets=(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300),
    ),
    "scanner",
    note="Near `ROUND_SECONDS` means that the tables do not fit into one round: add a scanner.",
)
TABLES_SCANNED = _declared(
    Counter("duebook_tables_scanned", "Tables whose triggers were evaluated."),
    "scanner",
    note="Beside the number of tables: how often each is walked.",
)
RUNS_CREATED = _declared(
    Counter("duebook_runs_created", "Runs written, by schedule or event kind.", ["kind"]),
    "scanner",
    note=(
        "The rate at which schedules fire. Runs of record events are made by whoever writes "
        "the record, and are not counted here."
    ),
)
NOT_FIRED = _declared(
    Counter(
        "duebook_not_fired",
        "Looks at what might have been due that made no run, by reason.",
        ["reason"],
    ),
    "scanner",
    note=(
        "The classes of the preview: `missing_schedule_value`, `invalid_schedule_value`, "
        "`already_fired`, `scheduled_for_future`, `when_filter_mismatch`; `active_run`: a "
        "window waits for the run before it. Counts looks, not rows: a walk meets the same "
        "row in every round, and leaves most of those out that surely are not due."
    ),
)
WORK_REQUEUED = _declared(
    Counter(
        "duebook_work_requeued",
        "Runs and scheduled actions announced again, or taken back from a lost worker.",
    ),
    "scanner",
    "worker",
    note="A steady rate without lost workers: messages are lost, or lie unclaimed for a minute.",
)
ANNOUNCEMENTS = _declared(
    Counter("duebook_announcements", "References confirmed by the broker."),
    "scanner",
    note="The rate at which work is offered; only with a broker.",
)
ANNOUNCEMENTS_REFUSED = _declared(
    Counter("duebook_announcements_refused", "References that the broker did not confirm."),
    "scanner",
    note="The broker is full, blocked or away; the rows wait in the table.",
)

CLAIMS_REFUSED = _declared(
    Counter("duebook_claims_refused", "References whose row was taken, not due or gone: harmless."),
    "worker",
    note="A large share of the announcements: workers are so late that work is offered twice.",
)
MESSAGES_UNREADABLE = _declared(
    Counter(
        "duebook_dead_lettered", "Messages that could not be read, sent to the dead-letter queue."
    ),
    "worker",
    note="`duebook dead-letters` shows them, with what is wrong with each.",
)
WORK_OUTCOMES = _declared(
    Counter(
        "duebook_work_outcomes",
        "Executions by how they ended.",
        ["kind", "status"],
    ),
    "worker",
    note=(
        "`kind`: `trigger_run`, `scheduled_action`, `staged_change`; `status`: `done`, `failed`, "
        "`cancelled`, `postponed`, of changes `applied`, `failed`."
    ),
)
RETRIES = _declared(
    Counter(
        "duebook_retries",
        "Executions that failed for now and will be attempted again.",
        ["kind", "type"],
    ),
    "worker",
    note=(
        "`kind` as above; `type`: of the action that failed, none of a change. Beside the "
        "outcomes: how much is done in vain, mostly since a receiver is away. Work of lost workers "
        "is not counted here."
    ),
)
ACTION_OUTCOMES = _declared(
    Counter("duebook_action_outcomes", "Actions executed.", ["type", "ok"]),
    "worker",
    note="The share of failures of each action type; every attempt counts.",
)
WORKER_LOSSES = _declared(
    Counter("duebook_worker_losses", "Runs whose worker died or fell silent."),
    "scanner",
    "worker",
    note="Some when a process is killed. More and more: workers die of what they do.",
)
LEASES_LOST = _declared(
    Counter("duebook_leases_lost", "Runs that somebody else took from this worker."),
    "worker",
    note="More than a few: workers are cut off from the database for longer than a lease.",
)
LATENESS_SECONDS = _declared(
    Histogram(
        "duebook_lateness_seconds", "From due to the start of the execution.", buckets=_LATENESS
    ),
    "worker",
    note="The promise to those who set triggers; first starts alone count.",
)
ACTION_SECONDS = _declared(
    Histogram("duebook_action_seconds", "Duration of one action.", ["type"], buckets=_DURATION),
    "worker",
    note="Which action type is slow, and by how much.",
)

SCAN_LAG_SECONDS = _declared(
    Gauge("duebook_scan_lag_seconds", "Age of the oldest scan of a table."),
    "scanner",
    note="The age of a tick, of this scanner.",
)
OLDEST_DUE_SECONDS = _declared(
    Gauge("duebook_oldest_due_seconds", "Age of the oldest row due and waiting."),
    "scanner",
    note=(
        "What waits although its time has come; an announced row counts again when its "
        "announcement is old."
    ),
)
OLDEST_SILENT_CLAIM_SECONDS = _declared(
    Gauge(
        "duebook_oldest_silent_claim_seconds",
        "For how long the held row that has been silent for longest was not touched.",
    ),
    "scanner",
    note=(
        "A worker that lives renews its leases, so it stays below `RENEW_SECONDS` and a little; a "
        "worker that is frozen or cut off tells nothing, and is seen here until its leases end."
    ),
)
OLDEST_UNSTARTED_CLAIM_SECONDS = _declared(
    Gauge(
        "duebook_oldest_unstarted_claim_seconds",
        "Age of the oldest claim for which this worker had no thread yet.",
    ),
    "worker",
    note=(
        "A worker claims little more than it has threads for, so mostly none waits. Only it knows "
        "what has begun: to write that down would cost each start a commit."
    ),
)
UNFINISHED_WORK = _declared(
    Gauge(
        "duebook_unfinished_work",
        "Runs and scheduled actions that are due, or held by workers.",
        ["status"],
    ),
    "scanner",
    note=(
        "`status`: `due` (counted up to 100,000 of each kind), `running`. What to scale workers by."
    ),
)
STUCK_WORK = _declared(
    Gauge(
        "duebook_stuck_work",
        "Runs and scheduled actions failed, or held without a sign of life.",
        ["kind"],
    ),
    "scanner",
    note="Failed work counts until it is retried or deleted as old, so watch how it grows.",
)
CHANGES_TO_REVIEW = _declared(
    Gauge("duebook_changes_to_review", "Staged changes that nobody has approved or rejected yet."),
    "scanner",
    note="How much waits for moderators.",
)
QUEUE_DEPTH = _declared(
    Gauge("duebook_queue_depth", "Messages in a broker's queue.", ["queue"]),
    "scanner",
    note=(
        "`queue`: the work queues and their `.dead`. Measured every 15 s, and with each "
        "announcement."
    ),
)

FAILING_TRIGGERS = _declared(
    Gauge(
        "duebook_failing_triggers",
        "Triggers whose last 5 runs all failed, the last in these 2 days.",
    ),
    "scanner",
    note="Counted once a round, up to 1000; `trigger_keeps_failing` names them.",
)
SILENT_SCHEDULES = _declared(
    Gauge(
        "duebook_silent_schedules",
        "Interval, daily and cron triggers that have let two windows pass without a run.",
    ),
    "scanner",
    note="Counted once a round, up to 1000; `schedule_silent` names them.",
)
OLDEST_TRANSACTION_SECONDS = _declared(
    Gauge(
        "duebook_oldest_transaction_seconds",
        "For how long the scanner has seen the oldest open transaction of the database.",
    ),
    "scanner",
    note="Measured every 15 s from the first sight on, so it may be that much too young.",
)
CLOCK_AHEAD_SECONDS = _declared(
    Gauge(
        "duebook_clock_ahead_seconds", "By how much the database's clock is ahead of this host's."
    ),
    "API",
    "scanner",
    "worker",
    note=(
        "Negative: behind. The database's clock decides when something is due. The API compares "
        "them with each request and each `/readyz`."
    ),
)
POOL_SESSIONS = _declared(
    Gauge(
        "duebook_pool_sessions",
        "Sessions of this process's pool: in_use, free; waiting: threads that want one.",
        ["state"],
    ),
    "API",
    "worker",
    note="`in_use` near `DB_POOL_SIZE` and `waiting` above zero: too few sessions.",
)

REDIS_UNANSWERED = _declared(
    Counter(
        "duebook_redis_unanswered", "Questions to Redis without an answer: the process did without."
    ),
    "API",
    "worker",
    note="How often it was done without Redis.",
)
REDIS_AWAY = _declared(
    Gauge("duebook_redis_away", "1 while Redis does not answer this process, else 0."),
    "API",
    "worker",
    note="Nothing is lost meanwhile; each process counts requests by itself.",
)
CLICKS = _declared(
    Counter("duebook_clicks", "Clicks taken in, by where they were seen.", ["seen_by"]),
    "API",
    "worker",
    note="`seen_by`: `api`, `tracker`.",
)
CLICKS_UNKNOWN = _declared(
    Counter("duebook_clicks_unknown", "Clicks told by another tracker on links that do not exist."),
    "worker",
    note="Another tracker's links are not known here: has it another tenant or database?",
)
WAITS_UNLOCKED = _declared(
    Counter("duebook_waits_unlocked", "Waits that a click ended."),
    "API",
    "scanner",
    "worker",
    note="How many waits end by a click and not by their deadline.",
)

REQUESTS_LIMITED = _declared(
    Counter(
        "duebook_requests_limited",
        "Requests answered 429, by which limit: tenant, address, questions.",
        ["limit"],
    ),
    "API",
    note="`tenant`: is `RATE_LIMIT` too low for somebody? `address`: somebody tries tokens.",
)
REQUEST_SECONDS = _declared(
    Histogram(
        "duebook_request_seconds",
        "Requests answered by the API.",
        ["method", "route", "status"],
        buckets=_DURATION,
    ),
    "API",
    note="Rate, errors and duration of each route.",
)
