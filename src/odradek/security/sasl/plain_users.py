"""Users of SASL PLAIN: names and passwords, and the format of a users file."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from odradek.model.secret import Secret

FILE_LENGTH_MAX: Final = 16 << 20
"""Longest users file in characters."""

DIGEST: Final = "sha256"
KEY_SIZE: Final = 32


class PlainUsers:
    """Checks passwords, in a time that depends neither on the user nor on where passwords differ.

    Keeps keyed digests only. ``key`` is KEY_SIZE random bytes, made anew for each start.
    """

    def __init__(self, passwords: Mapping[str, Secret], key: bytes) -> None:
        if len(key) < KEY_SIZE:
            raise ValueError(f"key must be at least {KEY_SIZE} bytes, got {len(key)}")
        self._key = key
        self._digests = {name: self._digest(password.reveal()) for name, password in passwords.items()}
        self._unknown = bytes(hashlib.new(DIGEST).digest_size)

    def verify(self, username: str, password: str) -> bool:
        digest = self._digest(password)
        expected = self._digests.get(username, self._unknown)
        return hmac.compare_digest(digest, expected) & (username in self._digests)

    def _digest(self, password: str) -> bytes:
        return hmac.digest(self._key, password.encode("utf-8", "surrogatepass"), DIGEST)

    def __contains__(self, username: str) -> bool:
        return username in self._digests

    def __len__(self) -> int:
        return len(self._digests)


def parse_users(text: str) -> dict[str, Secret]:
    """Parse a users file: a line ``name:password`` per user. Raises ValueError without any text of the file.

    - The name ends at the first colon. The password is the rest of the line; it may contain colons, and
      blanks around it are part of it.
    - Blank lines, and lines that begin with ``#``, are skipped.
    - Blanks around a name are ignored. Neither name nor password may be empty, and a name occurs once.
    """
    if len(text) > FILE_LENGTH_MAX:
        raise ValueError(f"users file must be at most {FILE_LENGTH_MAX} characters, got {len(text)}")
    users: dict[str, Secret] = {}
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        entry = line.removesuffix("\r")
        if not entry.strip() or entry.startswith("#"):
            continue
        name, colon, password = entry.partition(":")
        name = name.strip()
        if not colon or not name or not password or "\0" in entry:
            raise ValueError(f"line {number} of the users file must be name:password, got something else")
        if name in users:
            raise ValueError(f"line {number} of the users file repeats a user of an earlier line")
        users[name] = Secret(password)
    return users
