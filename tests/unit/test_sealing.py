import subprocess
import sys

import pytest

from shared.errors import Unavailable
from shared.sealing import Sealer
from tests.builders_sealed import CLEAR, LOST, NEW, NEW_KEY, OLD, ROTATING

SECRET = b"\x00 a secret \xff"
_LOADED = """
import sys
import services.api.app, services.scanner.process, services.worker.process
from shared.sealing import Sealer

clear, sealer = Sealer(), Sealer([sys.argv[1]])
clear.open(clear.seal(b"x"))
print([name for name in sys.modules if name == "cryptography.fernet"])
sealer.open(sealer.seal(b"x"))
print([name for name in sys.modules if name == "cryptography.fernet"])
"""


def test_without_a_key_it_is_kept_in_the_clear_and_says_so():
    sealed = CLEAR.seal(SECRET)

    assert (sealed.content, sealed.sealed_with) == (SECRET, None)
    assert CLEAR.open(sealed) == SECRET


def test_the_first_key_encrypts():
    sealed = ROTATING.seal(SECRET)

    assert sealed.sealed_with == ROTATING.current == NEW.current
    assert b"secret" not in sealed.content
    assert NEW.open(sealed) == SECRET


def test_all_keys_decrypt_and_what_is_in_the_clear_stays_readable():
    assert ROTATING.open(OLD.seal(SECRET)) == SECRET
    assert ROTATING.open(CLEAR.seal(SECRET)) == SECRET


@pytest.mark.parametrize("sealer", [CLEAR, OLD, LOST])
def test_what_no_key_opens_is_told_without_the_secret(sealer):
    with pytest.raises(Unavailable) as caught:
        sealer.open(NEW.seal(SECRET))

    assert caught.value.code == "secret_sealed"
    assert NEW.current in caught.value.message


def test_a_text_that_was_changed_is_not_opened():
    sealed = NEW.seal(SECRET)
    changed = bytes([*sealed.content[:-9], sealed.content[-9] ^ 1, *sealed.content[-8:]])

    with pytest.raises(Unavailable):
        NEW.open(type(sealed)(content=changed, sealed_with=sealed.sealed_with))


@pytest.mark.parametrize("text", ["", "x", "é" * 44, NEW_KEY[:-5], NEW_KEY + NEW_KEY])
def test_what_is_no_key_is_refused(text):
    with pytest.raises(ValueError, match="32 bytes"):
        Sealer([text])


def test_a_stored_secret_shows_in_no_text_about_it():
    assert "secret" not in repr(CLEAR.seal(SECRET)).replace("sealed_with", "")


def test_the_package_that_encrypts_is_loaded_by_nobody_without_keys_and_by_no_check_of_a_key():
    told = subprocess.run(
        [sys.executable, "-c", _LOADED, NEW_KEY], capture_output=True, text=True, check=True
    )

    assert told.stdout == "[]\n['cryptography.fernet']\n"
