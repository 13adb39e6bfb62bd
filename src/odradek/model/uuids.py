"""Topic, directory and cluster ids: sixteen bytes; as text, 22 characters of base64url without padding."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable

_TEXT = re.compile(r"[A-Za-z0-9_-]{22}")
_DRAWS_MAX = 100


def uuid_text(uuid: bytes) -> str:
    """The text of sixteen bytes, as Kafka prints an id."""
    if len(uuid) != 16:
        raise ValueError(f"an id has 16 bytes, not {len(uuid)}")
    return base64.urlsafe_b64encode(uuid).decode("ascii").rstrip("=")


def parse_uuid(text: str) -> bytes:
    """Sixteen bytes of a text; ``ValueError`` if it is not an id."""
    bare = text.rstrip("=")
    if not _TEXT.fullmatch(bare):
        raise ValueError(f"an id is 22 characters of base64url, this is not: {text[:40]!r}")
    return base64.urlsafe_b64decode(bare + "==")


def random_uuid(draw: Callable[[], bytes]) -> bytes:
    """An id from ``draw`` that Kafka's tools can take.

    Zero and one are reserved; a text that begins with a dash looks like an option on a command line.
    """
    for _ in range(_DRAWS_MAX):
        uuid = draw()
        if int.from_bytes(uuid, "big") > 1 and not uuid_text(uuid).startswith("-"):
            return uuid
    raise ValueError(f"no usable id in {_DRAWS_MAX} draws")
