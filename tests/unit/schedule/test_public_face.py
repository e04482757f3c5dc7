import inspect

from shared import schedule


def test_the_public_face_is_exactly_this():
    assert set(schedule.__all__) == {
        "ScheduleError",
        "anchor_for",
        "due_window",
        "fire_at",
        "normal_form",
        "parse_cell",
        "parse_schedule",
        "upcoming_windows",
        "window_key",
    }


def test_arguments_that_could_be_swapped_are_named():
    def keywords(function):
        return {
            name
            for name, parameter in inspect.signature(function).parameters.items()
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY
        }

    assert keywords(schedule.anchor_for) == {"saved_at"}
    assert keywords(schedule.due_window) == {"anchor", "last_consumed", "now"}
    assert keywords(schedule.upcoming_windows) == {"after", "count", "anchor"}
