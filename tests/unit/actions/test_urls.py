import pytest

from shared.actions.urls import parse_url


@pytest.mark.parametrize(
    ("text", "host", "port", "target", "host_header"),
    [
        ("https://example.com", "example.com", 443, "/", "example.com"),
        ("http://example.com", "example.com", 80, "/", "example.com"),
        ("https://Example.COM:8443/a/b?c=d", "example.com", 8443, "/a/b?c=d", "example.com:8443"),
        ("http://example.com:80/", "example.com", 80, "/", "example.com"),
        ("https://example.com?x=1", "example.com", 443, "/?x=1", "example.com"),
        ("https://example.com/a#part", "example.com", 443, "/a", "example.com"),
        ("https://example.com./", "example.com.", 443, "/", "example.com."),
        ("https://xn--fiq228c.example/", "xn--fiq228c.example", 443, "/", "xn--fiq228c.example"),
        ("http://[2606:4700::1]:8080/", "2606:4700::1", 8080, "/", "[2606:4700::1]:8080"),
        ("http://2130706433/", "2130706433", 80, "/", "2130706433"),
        ("HTTPS://example.com/", "example.com", 443, "/", "example.com"),
        ("https://example.com/a%20b//c;d", "example.com", 443, "/a%20b//c;d", "example.com"),
    ],
)
def test_a_url_is_read_into_its_parts(text, host, port, target, host_header):
    url = parse_url(text)

    assert (url.host, url.port, url.target, url.host_header) == (host, port, target, host_header)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "gopher://example.com/",
        "javascript:alert(1)",
        "https:example.com",
        "https:/example.com",
        "https://",
        "https:///path",
        "https://user@example.com/",
        "https://user:secret@example.com/",
        "https://good.example@evil.example/",
        "https://good.example\\@evil.example/",
        "https://example.com\\path",
        "https://example.com:0/",
        "https://example.com:65536/",
        "https://example.com:-1/",
        "https://example.com:+80/",
        "https://example.com:8 0/",
        "https://example.com:/",
        "https://example.com:٨٠/",
        "https://exa mple.com/",
        "https://example.com/a b",
        "https://example.com/\r\nHost: other",
        "https://example.com/\ttab",
        "https://example.com/\x00",
        "https://例子.example/",
        "https://example.com/路徑",
        "https://-example.com/",
        "https://exa%6dple.com/",
        "https://example..com/",
        "https://[::1/",
        "https://[::1]x/",
        "https://[fe80::1%25eth0]/",
        "https://[v1.fe80]/",
        "https://" + "a" * 64 + ".example/",
        "https://" + "a." * 127 + "example/",
        "https://example.com/" + "a" * 2048,
    ],
)
def test_a_url_that_is_not_plain_is_refused(text):
    with pytest.raises(ValueError, match="URL"):
        parse_url(text)


def test_the_reason_never_repeats_the_url():
    with pytest.raises(ValueError, match="no user part") as caught:
        parse_url("https://user:secret@example.com/")

    assert "secret" not in str(caught.value)
