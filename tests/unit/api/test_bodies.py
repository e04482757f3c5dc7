import io

import pytest

from services.api.bodies import body_length, media_type, read_pieces
from services.api.problems import LengthRequired, TooLarge, UnsupportedMedia
from shared.errors import InvalidInput


class Unreadable:
    def read(self, size):
        raise AssertionError("read")


def test_a_body_within_the_limit_has_its_length():
    assert body_length({"CONTENT_LENGTH": "10"}, limit=10) == 10
    assert body_length({"CONTENT_LENGTH": ""}, limit=10) == 0
    assert body_length({}, limit=10) == 0


def test_a_body_over_the_limit_is_refused_before_it_is_read():
    with pytest.raises(TooLarge):
        body_length({"CONTENT_LENGTH": "11", "wsgi.input": Unreadable()}, limit=10)


def test_a_chunked_body_is_refused():
    with pytest.raises(LengthRequired):
        body_length({"HTTP_TRANSFER_ENCODING": "chunked"}, limit=10)


@pytest.mark.parametrize("length", ["-1", "+1", " 1", "1_0", "\u0661", "9" * 19])
def test_a_length_that_is_no_number_is_refused(length):
    with pytest.raises(InvalidInput):
        body_length({"CONTENT_LENGTH": length}, limit=10)


def test_a_body_is_read_whole_and_no_further():
    environ = {"wsgi.input": io.BytesIO(b"0123456789")}

    assert b"".join(read_pieces(environ, length=4)) == b"0123"


def test_a_body_that_ends_early_is_refused():
    with pytest.raises(InvalidInput) as refused:
        list(read_pieces({"wsgi.input": io.BytesIO(b"01")}, length=4))
    assert refused.value.code == "body_truncated"


def test_a_client_that_falls_silent_has_sent_no_body():
    class Silent:
        def read(self, size):
            raise BlockingIOError

    with pytest.raises(InvalidInput) as refused:
        list(read_pieces({"wsgi.input": Silent()}, length=4))
    assert refused.value.code == "body_truncated"


@pytest.mark.parametrize(
    "given", ["application/json", "Application/JSON; charset=UTF-8", "application/json;x=y"]
)
def test_the_media_type_of_a_body_is_told(given):
    assert media_type({"CONTENT_TYPE": given}, allowed=["application/json"]) == "application/json"


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"CONTENT_TYPE": "text/plain"},
        {"CONTENT_TYPE": "application/json, text/plain"},
        {"CONTENT_TYPE": "application/json; charset=utf-16"},
        {"CONTENT_TYPE": "application/json", "HTTP_CONTENT_ENCODING": "gzip"},
        {"CONTENT_TYPE": "\xff\x00;;;=;"},
    ],
)
def test_other_media_types_and_encodings_are_refused(environ):
    with pytest.raises(UnsupportedMedia):
        media_type(environ, allowed=["application/json"])
