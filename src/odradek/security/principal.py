"""Principals: the identities that connections authenticate as."""

from __future__ import annotations

from typing import Final, NamedTuple

USER_TYPE: Final = "User"


class KafkaPrincipal(NamedTuple):
    """An identity, such as ``User:alice``. Names are compared exactly."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS: Final = KafkaPrincipal(USER_TYPE, "ANONYMOUS")
"""The principal of a connection that did not authenticate."""


def user(name: str) -> KafkaPrincipal:
    return KafkaPrincipal(USER_TYPE, name)


def parse_principal(text: str) -> KafkaPrincipal:
    """Parse ``Type:name``; a name may contain colons. Raises ValueError with the requirement."""
    principal_type, colon, name = text.partition(":")
    if not colon or not principal_type:
        raise ValueError(f"must be in the format principalType:principalName, got {text!r}")
    return KafkaPrincipal(principal_type, name)
