"""What start_workflow takes; the schema is asked as the registry asks it."""

import pytest

from shared.actions.action import CheckContext
from shared.actions.recordless import recordless_faults
from shared.actions.schemas import schema_faults
from shared.actions.start_workflow import MAX_CONTACT_ID, StartWorkflowSchema, start_faults
from tests.unit.actions.known import Known

NO_CONTACT = (
    "start_workflow line_user_id must be the id of a contact, or one token that stands for it"
)


def action(**settings):
    return {"type": "start_workflow", "workflow": "welcome", **settings}


def context(place="trigger", **parts):
    return CheckContext(place=place, lookup=Known(), **parts)


def told(config, context):
    faults = schema_faults(
        "start_workflow", StartWorkflowSchema, config, on_events=context.on_events
    )
    return [(f.pointer, f.message) for f in faults or start_faults(config, context)]


@pytest.mark.parametrize(
    ("config", "place"),
    [
        (action(), "trigger"),
        (action(line_user_id=1, context={"a": ["$row.x", 1]}), "trigger"),
        (action(line_user_id=MAX_CONTACT_ID), "workflow"),
        (action(line_user_id="${row.contact id}"), "trigger"),
        (action(line_user_id="$line_user.id", context={}), "rule"),
        (action(line_user_id="$event.contact"), "workflow"),
    ],
    ids=str,
)
def test_it_takes(config, place):
    assert told(config, context(place)) == []


@pytest.mark.parametrize(
    ("config", "faults"),
    [
        ({"type": "start_workflow"}, [("/workflow", "start_workflow workflow is required")]),
        (
            action(workflow=""),
            [("/workflow", "start_workflow workflow must have 1 to 200 characters")],
        ),
        (
            action(workflow="gone"),
            [("/workflow", "start_workflow workflow 'gone' does not exist")],
        ),
        (action(line_user_id=0), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id=True), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id=1.0), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id=2**63), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id=""), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id="7"), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id="$row.a$row.b"), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id=" $row.a"), [("/line_user_id", NO_CONTACT)]),
        (action(line_user_id="$event.contact"), [("/line_user_id", NO_CONTACT)]),
        (
            action(line_user_id=None),
            [("/line_user_id", "start_workflow line_user_id must not be null")],
        ),
        (action(context=[]), [("/context", "start_workflow context must be an object")]),
        (
            action(now=1),
            [
                (
                    "/now",
                    "start_workflow now is not a known key. keys: delay, name, on_error, type,"
                    " workflow, line_user_id, context",
                )
            ],
        ),
    ],
    ids=str,
)
def test_in_a_trigger_it_refuses(config, faults):
    assert told(config, context()) == faults


def test_a_workflow_may_name_itself_before_it_is_stored():
    assert told(action(workflow="new"), context("workflow", workflow="new")) == []
    assert told(action(workflow="newer"), context("workflow", workflow="new"))


@pytest.mark.parametrize("kind", ["interval", "daily"])
def test_without_a_row_none_can_name_the_contact(kind):
    config = action(line_user_id="$row.contact", context={"a": "$row.a"})

    [fault] = recordless_faults(config, context(schedule_kind=kind))

    assert (fault.code, fault.pointer) == ("record_context_required", "/line_user_id")
