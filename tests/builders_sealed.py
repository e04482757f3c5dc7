"""Keys that encrypt stored secrets."""

from base64 import urlsafe_b64encode

from shared.sealing import Sealer

OLD_KEY, NEW_KEY, LOST_KEY = (
    urlsafe_b64encode(letter * 32).decode() for letter in (b"o", b"n", b"l")
)

CLEAR = Sealer()
OLD = Sealer([OLD_KEY])
LOST = Sealer([LOST_KEY])
ROTATING = Sealer([NEW_KEY, OLD_KEY])
NEW = Sealer([NEW_KEY])
