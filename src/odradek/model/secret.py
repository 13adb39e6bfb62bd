"""Secrets: values that are not shown."""

from __future__ import annotations

import hmac


class Secret:
    """A password or key. ``repr``, ``str`` and formatting do not reveal it."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        """Compare in a time that does not depend on where the texts differ."""
        return isinstance(other, Secret) and hmac.compare_digest(self._text.encode(), other._text.encode())

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "[hidden]"
