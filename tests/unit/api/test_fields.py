from datetime import UTC, datetime

import pytest

from services.api import fields
from services.api.fields import StrictSchema, load
from shared.errors import InvalidInput


class ThingSchema(StrictSchema):
    text = fields.Text(min=1, max=5)
    choice = fields.Choice("a", "b")
    integer = fields.Integer(min=1, max=10)
    boolean = fields.Boolean()
    uuid = fields.Uuid()
    items = fields.Items(fields.Text(max=3))
    instant = fields.Instant()
    members = fields.Members()
    digits = fields.QueryInteger(min=0, max=100)
    flag = fields.QueryBoolean()
    json = fields.QueryJson()


UUID = "22222222-2222-4222-8222-222222222222"


@pytest.mark.parametrize(
    "raw",
    [
        {"text": "abc", "choice": "a", "integer": 10, "boolean": False, "uuid": UUID},
        {"items": ["a", "b"], "instant": "2026-08-27T05:02:13Z", "members": {"x": 1}},
        {"digits": "100", "flag": "true", "json": '[{"a": 1}]'},
    ],
)
def test_values_of_the_right_type_are_taken(raw):
    assert set(load(ThingSchema, raw)) == set(raw)


@pytest.mark.parametrize(
    "text",
    [
        "2026-08-27T05:02:13.5Z",
        "2026-08-27T05:02:13.5+00:00",
        "2026-08-27T13:02:13.5+08:00",
        "2026-08-27T05:02:13.5",
    ],
)
def test_an_instant_may_have_any_offset_and_is_utc_without_one(text):
    instant = load(ThingSchema, {"instant": text})["instant"]

    assert instant == datetime(2026, 8, 27, 5, 2, 13, 500_000, tzinfo=UTC)
    assert instant.tzinfo is UTC


@pytest.mark.parametrize(
    "raw",
    [
        *({"text": value} for value in (1, True, None, "", "abcdef", ["a"], {"a": 1})),
        *({"choice": value} for value in ("c", 1, None, ["a"])),
        *({"integer": value} for value in (True, 1.0, "1", 0, 11, None, 10**400)),
        *({"boolean": value} for value in ("yes", "true", 1, 0, None, 1.0)),
        *({"uuid": value} for value in (UUID[:-1], "{" + UUID + "}", "urn:uuid:" + UUID)),
        *({"uuid": value} for value in (UUID.replace("-", ""), 1, None, True, UUID + "\n")),
        *({"items": value} for value in ({"a": 1}, "abc", [1], [None], ["abcd"], None)),
        *({"instant": value} for value in ("2026-08-27", "2026-13-27T05:02:13Z", 5, None)),
        *({"instant": value} for value in ("2026-08-27T05:02:13+8", "٢026-08-27T05:02:13Z")),
        *(
            {"instant": value}
            for value in ("0001-01-01T00:00:00+00:01", "9999-12-31T23:59:59-00:01")
        ),
        *({"members": value} for value in ([1], "a", None)),
        *({"digits": value} for value in ("101", "-1", "+1", " 1", "1_0", "\u0661", "")),
        {"digits": "9" * 5000},
        *({"flag": value} for value in ("yes", "1", "True", "")),
        *({"json": value} for value in ("", "{", "NaN", "1e400", "[" * 10_000, '{"a":1,"a":2}')),
        {"other": 1},
        [],
        "text",
        None,
        1,
    ],
)
def test_other_values_are_refused_not_converted(raw):
    with pytest.raises(InvalidInput) as refused:
        load(ThingSchema, raw)
    assert refused.value.faults


MANY = ", ".join(f"f{number}" for number in range(20))


class ManySchema(StrictSchema):
    class Meta:
        include = {f"f{number}": fields.Boolean() for number in range(30)}  # noqa: RUF012


class NoneSchema(StrictSchema):
    """Nothing."""


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (NoneSchema, "a is not a known field: there is none"),
        (ManySchema, f"a is not a known field; known are: {MANY}, …"),
    ],
)
def test_an_unknown_field_is_told_which_are_known(schema, message):
    with pytest.raises(InvalidInput) as refused:
        load(schema, {"a": 1})

    assert (refused.value.code, refused.value.message) == ("field_unknown", message)


def test_faults_name_the_place_and_the_field_in_document_order():
    with pytest.raises(InvalidInput) as refused:
        load(ThingSchema, {"zzz": 1, "items": ["a", 5], "integer": True})

    assert [(fault.pointer, fault.code, fault.message) for fault in refused.value.faults] == [
        (
            "/zzz",
            "field_unknown",
            "zzz is not a known field; known are: text, choice, integer, boolean, uuid, items,"
            " instant, members, digits, flag, json",
        ),
        ("/items/1", "field_invalid", "items.1 must be a text"),
        ("/integer", "field_invalid", "integer must be an integer"),
    ]
