import hashlib
from uuid import UUID

from shared.observability.trace_ids import Row, place_of, step_of, trace_id_of

_TENANT = UUID(int=7)
_RUN = Row(_TENANT, "trigger_run", 41)


def test_a_trace_has_the_id_that_the_page_of_traces_tells():
    told = hashlib.sha256(f"{_TENANT}:trigger_run:41".encode()).hexdigest()

    assert trace_id_of(_RUN) == told[:32] == "fd24802f64fc37bf782840eaac380c1c"
    assert f"{place_of(_RUN).span_id:016x}" == told[32:48]


def test_rows_of_other_tenants_tables_and_keys_have_other_traces():
    rows = [
        _RUN,
        Row(UUID(int=8), "trigger_run", 41),
        Row(_TENANT, "scheduled_action", 41),
        Row(_TENANT, "trigger_run", 42),
    ]

    assert len({place_of(row).trace_id for row in rows}) == len(rows)
    assert len({place_of(row).span_id for row in rows}) == len(rows)


def test_steps_stand_in_the_trace_of_their_execution_each_as_itself():
    execution = Row(_TENANT, "workflow_execution", UUID(int=9))
    steps = [Row(_TENANT, "scheduled_action", id) for id in (1, 2)]

    places = [step_of(step, execution) for step in steps]

    assert {place.trace_id for place in places} == {place_of(execution).trace_id}
    assert [place.span_id for place in places] == [place_of(step).span_id for step in steps]
