"""Contacts: what conditions and tokens know of them, and which attributes they may have."""

import pytest
from hypothesis import given

from shared.domain.faults import MAX_TOLD
from shared.domain.line_users import (
    MAX_ATTRIBUTE_NAME,
    MAX_ATTRIBUTES,
    MAX_ATTRIBUTES_TEXT,
    attribute_faults,
    cells,
)
from tests.builders import a_line_user
from tests.strategies import json_values


def test_a_contact_is_known_by_its_own_fields_and_its_attributes():
    contact = a_line_user(id=7, external_id="U1", display_name=None, attributes={"tier": "gold"})

    assert cells(contact) == {
        "tier": "gold",
        "id": 7,
        "external_id": "U1",
        "display_name": None,
    }


def test_an_attribute_never_stands_for_an_own_field():
    contact = a_line_user(id=7, external_id="U1", attributes={"id": 8, "external_id": "U2"})

    assert cells(contact)["id"] == 7
    assert cells(contact)["external_id"] == "U1"


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"tier": "gold", "since": 2019, "tags": ["a", {"b": None}], "VIP 客戶": True},
        {"n" * MAX_ATTRIBUTE_NAME: 1},
        {str(number): None for number in range(MAX_ATTRIBUTES)},
        {"a": "x" * (MAX_ATTRIBUTES_TEXT - len('{"a": ""}'))},
        {"a": "案" * (MAX_ATTRIBUTES_TEXT - len('{"a": ""}'))},
    ],
    ids=lambda value: str(value)[:40],
)
def test_attributes_may_be(attributes):
    assert attribute_faults(attributes) == []


MANY = f"attributes must be an object of at most {MAX_ATTRIBUTES} attributes"
NAME = f"the name of an attribute must have 1 to {MAX_ATTRIBUTE_NAME} characters"
LONG = f"attributes must have at most {MAX_ATTRIBUTES_TEXT} characters together"


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        (None, [("/attributes", MANY)]),
        ([], [("/attributes", MANY)]),
        ("tier", [("/attributes", MANY)]),
        ({str(number): None for number in range(MAX_ATTRIBUTES + 1)}, [("/attributes", MANY)]),
        ({"": 1}, [("/attributes/", NAME)]),
        ({"a/b": 1, "n" * 201: 1}, [("/attributes/" + "n" * 201, NAME)]),
        (
            {"id": 1, "display_name": "x"},
            [
                ("/attributes/id", "'id' is a contact's own field, and no attribute"),
                (
                    "/attributes/display_name",
                    "'display_name' is a contact's own field, and no attribute",
                ),
            ],
        ),
        ({"a": "x" * (MAX_ATTRIBUTES_TEXT - 8)}, [("/attributes", LONG)]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_attributes_are_refused(attributes, told):
    faults = attribute_faults(attributes)

    assert [(fault.pointer, fault.message) for fault in faults] == told
    assert {fault.code for fault in faults} == {"attributes_invalid"}


@given(json_values)
def test_any_value_is_judged(raw):
    assert len(attribute_faults(raw)) <= MAX_TOLD
