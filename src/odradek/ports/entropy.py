"""The port for chance: what must differ between two runs, and must not in a simulation."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size_bytes: int) -> bytes:
        """Unpredictable bytes."""
        ...

    def below(self, limit: int) -> int:
        """A number from 0 to ``limit`` - 1."""
        ...

    def uuid(self) -> bytes:
        """Sixteen bytes of a random UUID (version 4)."""
        ...
