"""The port for randomness; deterministic in a simulation."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size_bytes: int) -> bytes:
        """Return unpredictable bytes."""
        ...

    def below(self, limit: int) -> int:
        """Return a number from 0 to ``limit`` - 1."""
        ...

    def uuid(self) -> bytes:
        """Return the sixteen bytes of a random UUID (version 4)."""
        ...
