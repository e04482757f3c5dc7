"""Signatures of outgoing calls as Standard Webhooks prescribes (standardwebhooks.com)."""

import hmac
from base64 import b64encode
from collections.abc import Iterable
from datetime import datetime


def signed_headers(
    secrets: Iterable[bytes], *, message_id: str, now: datetime, body: bytes
) -> dict[str, str]:
    """Return the three headers that let a receiver check where ``body`` comes from and when.

    ``message_id`` has no dot and stays the same on every attempt, ``now`` does not. One signature
    for each secret: while one replaces another, a receiver may know either.
    """
    timestamp = str(int(now.timestamp()))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signatures = (
        b64encode(hmac.digest(secret, signed, "sha256")).decode("ascii") for secret in secrets
    )
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{signature}" for signature in signatures),
    }
