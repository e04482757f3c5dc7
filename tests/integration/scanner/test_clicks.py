from services.scanner import steps
from services.scanner.steps import Scanner
from shared.queries.tracking import list_untried
from tests.builders_db import FAR_OFF, LONG_AGO, row_of
from tests.builders_delayed import insert_wait


def _scanner():
    return Scanner(None, round_seconds=60, run_retention_days=90)


def _branches(conn, waits):
    return {row_of(conn, "scheduled_action", id)["branch"] for id in waits}


def test_clicks_that_nobody_followed_up_are_swept_step_by_step(conn, monkeypatch):
    monkeypatch.setattr(steps, "_CLICKS_A_STEP", 2)
    waits = [insert_wait(conn, expires_at=FAR_OFF, clicked_at=LONG_AGO) for _ in range(5)]
    scanner = _scanner()

    pauses = [scanner.unlock_clicked(conn) for _ in range(3)]

    assert [pause > 0 for pause in pauses] == [False, False, True]
    assert _branches(conn, waits) == {"clicked"}
    assert list_untried(conn, limit=9) == []


def test_a_sweep_that_came_to_its_end_begins_anew(conn):
    scanner = _scanner()
    first = insert_wait(conn, expires_at=FAR_OFF)
    late = insert_wait(conn, expires_at=FAR_OFF, clicked_at=LONG_AGO)
    scanner.unlock_clicked(conn)

    conn.execute(
        "INSERT INTO tracking_click (link_id, first_clicked_at)"
        " SELECT tracking_link_id, %s FROM scheduled_action WHERE id = %s",
        [LONG_AGO, first],
    )
    scanner.unlock_clicked(conn)

    assert _branches(conn, [first, late]) == {"clicked"}


def test_the_scanner_sweeps_clicks_with_and_without_a_broker():
    assert "clicks" in [part.name for part in _scanner().parts()]
