"""Labels are few and have few values: nobody's id is one."""

from tests.monitoring.names import declared


def test_no_label_is_the_id_of_something():
    labels = {label for metric in declared() for label in metric._labelnames}

    assert labels == {
        *("part", "kind", "reason", "status", "type", "ok", "queue", "state", "seen_by"),
        *("limit", "method", "route"),
    }
