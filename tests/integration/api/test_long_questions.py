"""Questions that read whole tables leave sessions to everybody else."""

from uuid import UUID, uuid4

import pytest

from services.api.bulk_lines import JSON_LINES
from services.api.long_questions import LongQuestions
from services.api.problems import RateExceeded
from tests.builders_rules import NOTIFY
from tests.integration.api.callers import new_table, problem

LIST = {"triggers": []}


def _simulate(who, table):
    return who.post(f"{table}/triggers/simulate", json=LIST)


def _dry_run(who, table):
    return who.put(f"{table}/triggers?dry_run=true", json=LIST)


def _plan(who, _table):
    path = who.tables.replace("/tables", "/bundle/plan")
    line = b'{"kind": "table", "name": "new", "columns": []}\n'
    return who.post(path, data=line, content_type=JSON_LINES)


@pytest.mark.parametrize("ask", [_simulate, _dry_run, _plan])
def test_a_tenant_asks_one_long_question_at_a_time(moderator, parts, tenant, ask):
    table, _ = new_table(moderator)

    with parts.questions.turn(tenant.id):
        refused = ask(moderator, table)
        saved = moderator.put(f"{table}/triggers", json=LIST)
        previewed = moderator.get(f"{table}/triggers/schedule-preview")

    assert problem(refused)[:2] == (429, "questions_too_many")
    assert refused.headers["Retry-After"] == "5"
    assert (saved.status_code, previewed.status_code) == (200, 200)
    assert [ask(moderator, table).status_code for _ in range(3)] == [200] * 3


def _on_dates(count):
    schedule = {"type": "date_column_reached", "column": "到期時間"}
    return [{"on": "schedule", "schedule": schedule, "actions": [NOTIFY]}] * count


def test_a_preview_of_very_many_rows_is_a_long_question_too(moderator, parts, tenant):
    table, _ = new_table(moderator)
    saved = moderator.put(f"{table}/triggers", json={"triggers": _on_dates(11)})
    assert saved.status_code == 200, saved.json
    preview = f"{table}/triggers/schedule-preview"

    with parts.questions.turn(tenant.id):
        refused = moderator.get(f"{preview}?record_limit=10000")
        told = [moderator.get(f"{preview}?record_limit={n}").status_code for n in (1000, 9090)]

    assert problem(refused)[:2] == (429, "questions_too_many")
    assert told == [200, 200]
    assert moderator.get(f"{preview}?record_limit=10000").status_code == 200


def test_all_tenants_together_ask_no_more_than_leaves_sessions_for_others():
    questions, first = LongQuestions(2), uuid4()

    with questions.turn(first), questions.turn(uuid4()):
        for tenant_id in (first, UUID(int=0)):
            with pytest.raises(RateExceeded), questions.turn(tenant_id):
                pass

    with questions.turn(first), questions.turn(UUID(int=0)):
        pass


def test_a_question_that_fails_gives_its_turn_back():
    questions, tenant_id = LongQuestions(), uuid4()

    with pytest.raises(ZeroDivisionError), questions.turn(tenant_id):
        raise ZeroDivisionError

    with questions.turn(tenant_id):
        pass
