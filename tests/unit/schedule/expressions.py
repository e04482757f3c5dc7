"""Random cron expressions, each with its meaning built beside it and not by reading it."""

from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True)
class Field:
    text: str
    values: frozenset[int]


@dataclass(frozen=True, repr=False)
class Expression:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def __repr__(self):
        return " ".join(
            field.text for field in (self.minute, self.hour, self.day, self.month, self.weekday)
        )

    def matches(self, wall):
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and self.matches_day(wall)
        )

    def matches_day(self, day):
        by_day = day.day in self.day.values
        by_weekday = day.isoweekday() % 7 in self.weekday.values
        if self.day.text[0] == "*" or self.weekday.text[0] == "*":
            return day.month in self.month.values and by_day and by_weekday
        return day.month in self.month.values and (by_day or by_weekday)


def _items(lowest, highest):
    number = st.integers(lowest, highest)
    step = st.integers(1, highest + 2)
    bounds = st.tuples(number, number).map(sorted)
    return st.one_of(
        number.map(lambda n: Field(str(n), frozenset([n]))),
        bounds.map(lambda b: Field(f"{b[0]}-{b[1]}", frozenset(range(b[0], b[1] + 1)))),
        step.map(lambda s: Field(f"*/{s}", frozenset(range(lowest, highest + 1, s)))),
        st.tuples(bounds, step).map(
            lambda p: Field(
                f"{p[0][0]}-{p[0][1]}/{p[1]}", frozenset(range(p[0][0], p[0][1] + 1, p[1]))
            )
        ),
    )


def _star(lowest, highest):
    return st.just(Field("*", frozenset(range(lowest, highest + 1))))


def _lists(lowest, highest):
    return st.lists(_items(lowest, highest), min_size=1, max_size=3).map(
        lambda items: Field(
            ",".join(item.text for item in items), frozenset().union(*(i.values for i in items))
        )
    )


def _fields(lowest, highest):
    return _star(lowest, highest) | _lists(lowest, highest)


def expressions():
    return st.builds(
        Expression,
        minute=_fields(0, 59),
        hour=_fields(0, 23),
        day=_fields(1, 31),
        month=_fields(1, 12),
        weekday=_fields(0, 6),
    )


def expressions_of_the_week():
    """Expressions that match in any week, often in the hours in which clocks are moved."""
    return st.builds(
        Expression,
        minute=_fields(0, 59),
        hour=_fields(0, 23) | _items(0, 4).filter(lambda item: "*" not in item.text),
        day=_star(1, 31),
        month=_star(1, 12),
        weekday=_star(0, 6) | _fields(0, 6),
    )
