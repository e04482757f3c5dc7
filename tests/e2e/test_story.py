"""A purchase; a follow-up only if there was no other; a second message only without a click."""

import pytest

from tests.e2e.installation import Workspace
from tests.e2e.story import Story

CONTACTS = 300


@pytest.fixture
def installation(install, amqp_url, request):
    """All services twice, over RabbitMQ with Redis, or over PostgreSQL alone."""
    redis_url = request.getfixturevalue("redis_url") if amqp_url else ""
    installation = install(amqp_url, REDIS_URL=redis_url)
    for service in ("api", "scanner", "scanner", "worker", "worker"):
        installation.start(service)
    installation.wait(installation.answers)
    return installation


def test_every_contact_takes_exactly_one_branch(installation, conn):
    story = Story(installation, Workspace(installation), conn, contacts=CONTACTS)

    story.author()
    story.buy()
    story.let_three_days_pass()
    story.click_early()
    story.click_at_the_deadline()
    story.let_the_day_end()

    story.assert_exact()
