"""SCRAM credentials: keys derived from a password (RFC 5802, RFC 7677), and Kafka's text of them."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from odradek.model.secret import Secret
from odradek.security.sasl.mechanism import SCRAM_SHA_256, SCRAM_SHA_512

ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16_384
"""Kafka's limits of the credentials that it creates."""

HASHES: Final[Mapping[str, str]] = {SCRAM_SHA_256: "sha256", SCRAM_SHA_512: "sha512"}
"""Hash functions by mechanism."""

TEXT_LENGTH_MAX: Final = 4096
SALT_BITS: Final = 130
"""Randomness of a salt or nonce, as in Kafka."""

_DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


class ScramCredential(NamedTuple):
    """Keys by which a server checks a client, and proves itself to it. ``repr`` does not reveal them."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations}, keys=[hidden])"


def create_credential(
    mechanism: str, password: Secret, random_bytes: Callable[[int], bytes], iterations: int = ITERATIONS_MIN
) -> ScramCredential:
    """Return a credential with a new salt. Raises ValueError for iterations out of Kafka's limits."""
    check_iterations(iterations)
    salt = random_text(random_bytes).encode("ascii")
    return credential_from_salted_password(
        mechanism, salted_password(mechanism, password, salt, iterations), salt, iterations
    )


def credential_from_salted_password(
    mechanism: str, salted: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """Return the credential of a salted password, which is how AlterUserScramCredentials transmits it."""
    check_iterations(iterations)
    stored_key = hashlib.new(HASHES[mechanism], client_key(mechanism, salted)).digest()
    return ScramCredential(salt, stored_key, server_key(mechanism, salted), iterations)


def check_iterations(iterations: int) -> None:
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        raise ValueError(f"iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}, got {iterations}")


def salted_password(mechanism: str, password: Secret, salt: bytes, iterations: int) -> bytes:
    """Derive a key from a password: takes milliseconds. As in Kafka, the password is not normalized."""
    return hashlib.pbkdf2_hmac(HASHES[mechanism], password.reveal().encode("utf-8"), salt, iterations)


def client_key(mechanism: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Client Key", HASHES[mechanism])


def server_key(mechanism: str, salted: bytes) -> bytes:
    return hmac.digest(salted, b"Server Key", HASHES[mechanism])


def random_text(random_bytes: Callable[[int], bytes]) -> str:
    """Return a salt or nonce as Kafka makes them: a number of SALT_BITS bits in base 36."""
    size = (SALT_BITS + 7) // 8
    return text_of_number(int.from_bytes(random_bytes(size), "big") >> (8 * size - SALT_BITS))


def text_of_number(number: int) -> str:
    digits = ""
    while number or not digits:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits


def format_credential(credential: ScramCredential) -> Secret:
    """Return Kafka's text of a credential, the value of a user's config such as ``SCRAM-SHA-256``."""
    salt, stored_key, server_key_ = (base64.b64encode(value).decode("ascii") for value in credential[:3])
    return Secret(
        f"salt={salt},stored_key={stored_key},server_key={server_key_},iterations={credential.iterations}"
    )


def parse_credential(mechanism: str, text: str) -> ScramCredential:
    """Parse Kafka's text of a credential. Raises ValueError, which does not quote the text."""
    if len(text) > TEXT_LENGTH_MAX:
        raise ValueError(f"SCRAM credential must be at most {TEXT_LENGTH_MAX} characters, got {len(text)}")
    pairs = [part.partition("=")[::2] for part in text.split(",")]
    fields = dict(pairs)
    if len(pairs) != 4 or set(fields) != {"salt", "stored_key", "server_key", "iterations"}:
        raise ValueError(
            "SCRAM credential must have salt, stored_key, server_key, iterations, got other fields"
        )
    try:
        salt, stored_key, server_key_ = (
            base64.b64decode(fields[name], validate=True) for name in ("salt", "stored_key", "server_key")
        )
    except (binascii.Error, ValueError):
        raise ValueError("SCRAM credential must have base64 values, got something else") from None
    size = hashlib.new(HASHES[mechanism]).digest_size
    if not salt or len(stored_key) != size or len(server_key_) != size:
        raise ValueError(f"keys of {mechanism} must be {size} bytes with a salt, got other sizes")
    iterations = fields["iterations"]
    if not (iterations.isascii() and iterations.isdigit() and 0 < len(iterations) < 10 and int(iterations)):
        raise ValueError("iterations of a SCRAM credential must be a positive number, got something else")
    return ScramCredential(salt, stored_key, server_key_, int(iterations))
