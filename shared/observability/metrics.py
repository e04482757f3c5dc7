"""Every counter, gauge and histogram of the product, declared in one place.

A process counts only what it does itself; names and labels are public, as dashboards use them.
"""

from prometheus_client import Counter, Gauge, Histogram

# Seconds. The fine end shows an idle system at work, the coarse end an outage.
_LATENESS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200)
_DURATION = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30)

TICKS = Counter("duebook_ticks", "Rounds of the scanner that came to their end.")
TICK_FAILURES = Counter(
    "duebook_tick_failures", "Parts of a round that failed; the round went on.", ["part"]
)
TICK_SECONDS = Histogram(
    "duebook_tick_seconds",
    "Duration of a round of the scanner, without the pause behind it.",
    buckets=(0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300),
)
TABLES_SCANNED = Counter("duebook_tables_scanned", "Tables whose triggers were evaluated.")
RUNS_CREATED = Counter("duebook_runs_created", "Runs written, by schedule or event kind.", ["kind"])
NOT_FIRED = Counter(
    "duebook_not_fired",
    "Looks at what might have been due that made no run, by reason.",
    ["reason"],
)
WORK_REQUEUED = Counter(
    "duebook_work_requeued",
    "Runs and scheduled actions announced again, or taken back from a lost worker.",
)
ANNOUNCEMENTS = Counter("duebook_announcements", "References confirmed by the broker.")
ANNOUNCEMENTS_REFUSED = Counter(
    "duebook_announcements_refused", "References that the broker did not confirm."
)

CLAIMS_REFUSED = Counter(
    "duebook_claims_refused", "References whose row was taken, not due or gone: harmless."
)
MESSAGES_UNREADABLE = Counter(
    "duebook_dead_lettered", "Messages that could not be read, sent to the dead-letter queue."
)
WORK_OUTCOMES = Counter(
    "duebook_work_outcomes",
    "Executions by how they ended: done, failed, cancelled, postponed; changes: applied, failed.",
    ["kind", "status"],
)
ACTION_OUTCOMES = Counter("duebook_action_outcomes", "Actions executed.", ["type", "ok"])
WORKER_LOSSES = Counter("duebook_worker_losses", "Runs whose worker died or fell silent.")
LEASES_LOST = Counter("duebook_leases_lost", "Runs that somebody else took from this worker.")
LATENESS_SECONDS = Histogram(
    "duebook_lateness_seconds", "From due to the start of the execution.", buckets=_LATENESS
)
ACTION_SECONDS = Histogram(
    "duebook_action_seconds", "Duration of one action.", ["type"], buckets=_DURATION
)

SCAN_LAG_SECONDS = Gauge("duebook_scan_lag_seconds", "Age of the oldest scan of a table.")
OLDEST_DUE_SECONDS = Gauge("duebook_oldest_due_seconds", "Age of the oldest row due and waiting.")
OLDEST_UNSTARTED_CLAIM_SECONDS = Gauge(
    "duebook_oldest_unstarted_claim_seconds",
    "Age of the oldest claim for which this worker had no thread yet.",
)
UNFINISHED_WORK = Gauge(
    "duebook_unfinished_work",
    "Runs and scheduled actions that are due, or held by workers.",
    ["status"],
)
STUCK_WORK = Gauge(
    "duebook_stuck_work",
    "Runs and scheduled actions failed, or held without a sign of life.",
    ["kind"],
)
CHANGES_TO_REVIEW = Gauge(
    "duebook_changes_to_review", "Staged changes that nobody has approved or rejected yet."
)
QUEUE_DEPTH = Gauge("duebook_queue_depth", "Messages in a broker's queue.", ["queue"])

FAILING_TRIGGERS = Gauge(
    "duebook_failing_triggers", "Triggers whose last 5 runs all failed, the last in these 2 days."
)
SILENT_SCHEDULES = Gauge(
    "duebook_silent_schedules",
    "Interval, daily and cron triggers that have let two windows pass without a run.",
)
OLDEST_TRANSACTION_SECONDS = Gauge(
    "duebook_oldest_transaction_seconds",
    "For how long the scanner has seen the oldest open transaction of the database.",
)
CLOCK_AHEAD_SECONDS = Gauge(
    "duebook_clock_ahead_seconds", "By how much the database's clock is ahead of this host's."
)
POOL_SESSIONS = Gauge(
    "duebook_pool_sessions",
    "Sessions of this worker's pool: in_use, free; waiting: threads that want one.",
    ["state"],
)

REDIS_UNANSWERED = Counter(
    "duebook_redis_unanswered", "Questions to Redis without an answer: the process did without."
)
REDIS_AWAY = Gauge("duebook_redis_away", "1 while Redis does not answer this process, else 0.")
CLICKS = Counter("duebook_clicks", "Clicks taken in, by where they were seen.", ["seen_by"])
CLICKS_UNKNOWN = Counter(
    "duebook_clicks_unknown", "Clicks told by another tracker on links that do not exist."
)
WAITS_UNLOCKED = Counter("duebook_waits_unlocked", "Waits that a click ended.")

REQUESTS_LIMITED = Counter(
    "duebook_requests_limited",
    "Requests answered 429, by which limit: tenant, address, questions.",
    ["limit"],
)
REQUEST_SECONDS = Histogram(
    "duebook_request_seconds",
    "Requests answered by the API.",
    ["method", "route", "status"],
    buckets=_DURATION,
)
