"""Following a tracking link: to its stored target, for everybody, and the click is taken in."""

from flask import Blueprint, Response, request
from werkzeug.datastructures import Headers
from werkzeug.exceptions import NotFound

from services.api.dependencies import Parts
from shared.db.clock import server_now
from shared.domain.tracking import TrackingLink, is_link_token
from shared.observability import metrics
from shared.usecases.unlock_wait import find_clicked, take_click

# What fetches a page ahead of its reader, or to show a preview of it, is nobody's click.
_PURPOSES = ("Sec-Purpose", "Purpose", "X-Purpose", "X-Moz")
_AHEAD = ("prefetch", "prerender", "preview")
_PREVIEWERS = (
    *("facebookexternalhit", "facebot", "line-poker", "whatsapp/", "telegrambot", "twitterbot"),
    *("slackbot", "slack-imgproxy", "discordbot", "linkedinbot", "skypeuripreview", "viberbot"),
    *("applebot", "googlebot", "google-inspectiontool", "bingbot", "bingpreview", "yandexbot"),
    *(
        "baiduspider",
        "duckduckbot",
        "pinterestbot",
        "redditbot",
        "mastodon/",
        "embedly",
        "iframely",
    ),
)


def clicks_blueprint(parts: Parts) -> Blueprint:
    """Return the route ``/t/<token>``.

    An unknown token is answered as any address at which there is nothing. The query is not looked
    at: mail programs and networks add to it, and the target is the stored one in any case.
    """
    blueprint = Blueprint("clicks", __name__)

    def follow(token: str) -> Response:
        link = _follow(parts, token) if is_link_token(token) else None
        if link is None:
            raise NotFound
        return Response(status=302, headers={"Location": link.target_url})

    blueprint.add_url_rule("/t/<token>", view_func=follow, methods=["GET"])
    return blueprint


def _follow(parts: Parts, token: str) -> TrackingLink | None:
    """Return the link, its click written if this request is one: a few statements, whatever came.

    Raises ``psycopg.OperationalError`` when the link or the click cannot be had: better to be asked
    again than to lose a click.
    """
    with parts.sessions() as conn:
        link = find_clicked(conn, token)
        if link is None or not is_click(request.method, request.headers):
            return link
        conn.bind(link.tenant_id)
        take_click(conn, link, clicked_at=server_now(conn), clicks=parts.clicks)
    metrics.CLICKS.labels("api").inc()
    return link


def is_click(method: str, headers: Headers) -> bool:
    """Tell whether a request is somebody's click: no HEAD, no prefetch, no preview of a link."""
    said = " ".join(headers.get(name, "") for name in _PURPOSES).lower()
    agent = headers.get("User-Agent", "").lower()
    return (
        method == "GET"
        and not any(word in said for word in _AHEAD)
        and not any(name in agent for name in _PREVIEWERS)
    )
