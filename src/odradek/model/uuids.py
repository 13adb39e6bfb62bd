"""UUIDs of topics, directories and clusters: 16 bytes, as text 22 characters of base64url without padding."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")
_DRAWS_MAX = 100


def uuid_text(uuid: bytes) -> str:
    """Format 16 bytes as Kafka does."""
    if len(uuid) != 16:
        raise ValueError(f"uuid must have 16 bytes, got {len(uuid)}")
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> bytes:
    """Parse the text form; raises ``ValueError`` if it is invalid."""
    bare = text.rstrip("=")
    if not _TEXT.fullmatch(bare):
        raise ValueError(f"uuid must have 22 base64url characters, got {text[:40]!r}")
    return base64.urlsafe_b64decode(bare + "==")


def random_uuid(draw: Callable[[], bytes]) -> bytes:
    """Return a UUID from ``draw`` that Kafka's tools accept.

    Zero and one are reserved; a text that begins with a dash looks like a command-line option.
    """
    for _ in range(_DRAWS_MAX):
        uuid = draw()
        if int.from_bytes(uuid, "big") > 1 and not uuid_text(uuid).startswith("-"):
            return uuid
    raise ValueError(f"no valid uuid in {_DRAWS_MAX} draws")
