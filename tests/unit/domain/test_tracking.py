import pytest

from shared.domain.tracking import TOKEN_BYTES, is_link_token, link_token, link_url, token_in

TOKEN = link_token(bytes(range(TOKEN_BYTES)))


@pytest.mark.parametrize(
    "text",
    [
        TOKEN,
        link_url("https://api.example", TOKEN),
        link_url("https://api.example/below", TOKEN),
        f"/t/{TOKEN}",
        f"https://api.example/t/{TOKEN}?utm=a/b#c/d",
        f"https://api.example/t/{TOKEN}#c?d/e",
    ],
)
def test_the_token_of_a_link_is_found_in_its_address(text):
    assert is_link_token(TOKEN)
    assert token_in(text) == TOKEN


@pytest.mark.parametrize("text", ["", "/", f"{TOKEN}/", f"{TOKEN}x", f"?t={TOKEN}", f"#/{TOKEN}"])
def test_no_other_text_has_a_token(text):
    assert not is_link_token(token_in(text))
