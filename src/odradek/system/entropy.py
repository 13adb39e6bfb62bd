"""Randomness from the operating system."""

import secrets
import uuid


class SystemEntropy:
    def token(self, size_bytes: int) -> bytes:
        return secrets.token_bytes(size_bytes)

    def below(self, limit: int) -> int:
        return secrets.randbelow(limit)

    def uuid(self) -> bytes:
        return uuid.uuid4().bytes
