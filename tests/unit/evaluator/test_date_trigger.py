"""Which records of a page are due, and to which class the others belong."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shared.evaluator.date_trigger import (
    Ahead,
    Due,
    ahead_from,
    identity_length,
    judge_page,
    look_at,
)
from tests.builders import NOW, SCHEDULES, a_candidate, a_read_trigger

DONE = {"column": "status", "op": "neq", "value": "done"}
EARLIEST = datetime.min.replace(tzinfo=UTC)


def a_date_trigger(*, column="due", offset_minutes=0, when=()):
    schedule = {"type": "date_column_reached", "column": column, "offset_minutes": offset_minutes}
    return a_read_trigger(schedule=schedule, when=list(when))


def judge(*rows, consumed=(), now=NOW, trigger=None):
    return judge_page(trigger or a_date_trigger(), rows, consumed=set(consumed), now=now)


def class_of(page):
    classes = {
        "missing": page.missing_schedule_value,
        "invalid": page.invalid_schedule_value,
        "fired": page.already_fired,
        "future": page.scheduled_for_future,
        "mismatch": page.when_filter_mismatch,
        "due": page.due_now,
    }
    assert sum(classes.values()) == page.records_scanned == 1
    return next(name for name, count in classes.items() if count)


def test_only_of_a_row_that_may_be_due_the_other_cells_are_asked_for():
    class Closed:
        record_id, version, look_at = 1, 1, None

        def __init__(self, cell):
            self.cell = cell

        @property
        def data(self):
            raise LookupError

    trigger = a_date_trigger(when=[DONE])

    for cell in (None, "soon", "2026-07-25 09:01"):
        assert judge(Closed(cell), trigger=trigger).records_scanned == 1
    with pytest.raises(LookupError):
        judge(Closed("2026-07-25"), trigger=trigger)


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (None, "missing"),
        ("", "missing"),
        (" \t", "missing"),
        ("soon", "invalid"),
        ("2026-02-30", "invalid"),
        ("20260725", "invalid"),
        ("2026-07-25 09:00", "due"),
        ("2026-07-25T09:00:59Z", "due"),
        ("2026-07-25T09:00+08:00", "due"),
        ("2026-07-25 09:01", "future"),
        ("2026-07-25", "due"),
        ("9999-12-31 23:59", "future"),
    ],
)
def test_a_cell_decides_the_class(cell, expected):
    assert class_of(judge(a_candidate(cell))) == expected


def test_a_fired_value_is_fired_whatever_else_is_true():
    consumed = {(1, "2026-07-25 09:00"), (1, "2030-01-01 00:00")}
    trigger = a_date_trigger(when=[DONE])
    mismatch = {"c3": "done"}

    for cell in ("2026-07-25 09:00:30", "2030-01-01"):
        row = a_candidate(cell, data=mismatch)
        assert class_of(judge(row, consumed=consumed, trigger=trigger)) == "fired"


def test_another_record_or_value_is_not_fired():
    consumed = {(2, "2026-07-25 09:00"), (1, "2026-07-24 09:00")}

    assert class_of(judge(a_candidate("2026-07-25 09:00"), consumed=consumed)) == "due"


def test_a_row_ahead_is_future_before_its_when_is_asked():
    row = a_candidate("2026-07-26", data={"c3": "done"})

    assert class_of(judge(row, trigger=a_date_trigger(when=[DONE]))) == "future"


@pytest.mark.parametrize(
    ("status", "expected"), [("done", "mismatch"), ("open", "due"), (None, "due")]
)
def test_a_due_row_must_match_when(status, expected):
    row = a_candidate("2026-07-25", data={"c3": status})

    assert class_of(judge(row, trigger=a_date_trigger(when=[DONE]))) == expected


def test_a_due_row_carries_its_identity_and_instant():
    page = judge(a_candidate("2026-07-25T08:59:30Z", record_id=7, version=3))

    assert page.due == [
        Due(
            record_id=7,
            version=3,
            identity="2026-07-25 08:59",
            fire_at=datetime(2026, 7, 25, 8, 59, tzinfo=UTC),
        )
    ]


def test_a_date_column_has_the_day_as_identity():
    page = judge(a_candidate("2026-07-25 23:59"), trigger=a_date_trigger(column="day"))

    assert [(due.identity, due.fire_at.hour) for due in page.due] == [("2026-07-25", 0)]


@pytest.mark.parametrize(
    ("offset_minutes", "cell", "expected"),
    [
        (-60, "2026-07-25 10:00", "due"),
        (-60, "2026-07-25 10:01", "future"),
        (15, "2026-07-25 08:45", "due"),
        (15, "2026-07-25 08:46", "future"),
        (43200, "9999-12-31 23:59", "future"),
        (-43200, "0001-01-01 00:00", "due"),
    ],
)
def test_the_offset_shifts_the_instant_and_not_the_identity(offset_minutes, cell, expected):
    page = judge(a_candidate(cell), trigger=a_date_trigger(offset_minutes=offset_minutes))

    assert class_of(page) == expected
    assert all(due.identity == cell for due in page.due)


def test_the_first_instant_is_due_at_the_beginning_of_time():
    page = judge(a_candidate("0001-01-01"), trigger=a_date_trigger(offset_minutes=-1))

    assert [due.fire_at for due in page.due] == [EARLIEST]


AT_TEN = datetime(2026, 7, 25, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("look", "told"),
    [(None, True), (AT_TEN, False), (AT_TEN - timedelta(minutes=1), True), (NOW, True)],
)
def test_a_row_ahead_is_told_when_the_due_index_does_not_have_it(look, told):
    page = judge(a_candidate("2026-07-25 10:00", record_id=7, version=3, look_at=look))

    assert page.ahead == ([Ahead(record_id=7, version=3, fire_at=AT_TEN)] if told else [])
    assert page.scheduled_for_future == 1


def test_a_row_at_the_end_of_time_wants_no_entry():
    page = judge(a_candidate("9999-12-31 23:59"), trigger=a_date_trigger(offset_minutes=1))

    assert page.scheduled_for_future == 1
    assert page.ahead == []


def test_rows_keep_their_order():
    cells = ["2026-07-25", "2027-01-01", "2026-07-24", "2026-12-01", "2026-07-25"]
    page = judge(*(a_candidate(cell, record_id=n) for n, cell in enumerate(cells)))

    assert [due.record_id for due in page.due] == [0, 2, 4]
    assert [ahead.record_id for ahead in page.ahead] == [1, 3]


def test_an_empty_page_has_nothing():
    assert judge().records_scanned == 0


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("2026-07-25 10:00", AT_TEN - timedelta(minutes=30)),
        ("soon", None),
        (None, None),
        (5, None),
        (["2026-07-25"], None),
    ],
)
def test_a_record_wants_a_look_when_it_fires(cell, expected):
    assert look_at(a_date_trigger(offset_minutes=-30), cell) == expected


def test_a_record_at_the_end_of_time_wants_no_look():
    assert look_at(a_date_trigger(offset_minutes=1), "9999-12-31 23:59") is None


def test_a_clock_trigger_has_no_records():
    with pytest.raises(TypeError):
        judge(trigger=a_read_trigger(schedule=SCHEDULES["daily"]))


cells = (
    st.none()
    | st.text(max_size=12)
    | st.datetimes().map(str)
    | st.dates().map(str)
    | st.sampled_from(["2026-07-25 09:00", "2026-07-25", "9999-12-31 23:59", "0001-01-01"])
)
identities = st.sampled_from(["2026-07-25 09:00", "2026-07-25 00:00"])
offsets = st.sampled_from([0, -43200, 43200, -1, 1])


@given(
    st.lists(st.tuples(cells, st.sampled_from(["done", "open", None])), max_size=8),
    offsets,
    st.datetimes(timezones=st.just(UTC)),
    st.sets(
        st.tuples(st.integers(0, 7), st.sampled_from(["2026-07-25 09:00", "2026-07-25 00:00"]))
    ),
)
def test_every_row_has_one_class_and_what_is_due_is_new_and_reached(values, offset, now, consumed):
    trigger = a_date_trigger(offset_minutes=offset, when=[DONE])
    rows = [
        a_candidate(cell, record_id=n, data={"c3": status})
        for n, (cell, status) in enumerate(values)
    ]

    page = judge(*rows, consumed=consumed, now=now, trigger=trigger)

    assert page.records_scanned == len(rows)
    assert all(due.fire_at <= now for due in page.due)
    assert not {(due.record_id, due.identity) for due in page.due} & consumed
    assert all(ahead.fire_at > now for ahead in page.ahead)


@given(st.lists(cells, max_size=8), offsets)
def test_what_has_fired_never_fires_again(values, offset):
    trigger = a_date_trigger(offset_minutes=offset)
    rows = [a_candidate(cell, record_id=n) for n, cell in enumerate(values)]
    first = judge(*rows, trigger=trigger)

    again = judge(*rows, consumed={(d.record_id, d.identity) for d in first.due}, trigger=trigger)

    assert again.due == []
    assert again.already_fired == first.due_now


@pytest.mark.parametrize(
    ("offset_minutes", "bound"), [(0, "2026-07-26"), (-899, "2026-07-26"), (-900, "2026-07-27")]
)
def test_no_text_from_the_day_after_on_can_be_due(offset_minutes, bound):
    assert ahead_from(a_date_trigger(offset_minutes=offset_minutes), now=NOW) == bound


def test_at_the_end_of_time_there_is_no_such_day():
    end = datetime.max.replace(tzinfo=UTC)

    assert ahead_from(a_date_trigger(), now=end) is None


_ODD_TEXTS = st.text(alphabet="0123456789-:TZ+. \tÄ")
_DAYS = st.dates(min_value=NOW.date() - timedelta(days=40), max_value=NOW.date() + timedelta(40))
_TAILS = st.sampled_from(["", " 23:59", "T00:00:00.5Z", "+14", " 09:00-12:00", "Z", " "])
_TEXTS = _ODD_TEXTS | st.builds(lambda day, tail: f"{day}{tail}", _DAYS, _TAILS)


@given(
    text=_TEXTS,
    offset_minutes=st.integers(-43200, 43200),
    column=st.sampled_from(["due", "day"]),
)
def test_what_is_not_less_than_that_text_is_never_due(text, offset_minutes, column):
    trigger = a_date_trigger(column=column, offset_minutes=offset_minutes)

    page = judge(a_candidate(text), trigger=trigger)

    assert page.due_now == 0 or text < ahead_from(trigger, now=NOW)


@given(text=_TEXTS, column=st.sampled_from(["due", "day"]))
def test_what_begins_with_a_consumed_identity_is_never_due(text, column):
    trigger = a_date_trigger(column=column)
    length = identity_length(trigger)
    assume(len(text) >= length)

    page = judge(
        a_candidate(text), consumed={(1, text[:length].replace("T", " "))}, trigger=trigger
    )

    assert page.due_now == 0
