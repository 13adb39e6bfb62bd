"""SCRAM credentials as configs of users, in Kafka's format, and the ones this broker has read."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64encode
from collections.abc import Mapping
from enum import IntEnum
from typing import Final


class ScramMechanism(IntEnum):
    """Mechanisms by their number in requests."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def mechanism_name(self) -> str:
        """Name in SASL, and of the config that holds a credential."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        return self.name.removeprefix("SCRAM_").replace("_", "").lower()


MECHANISM_NAMES: Final = tuple(mechanism.mechanism_name for mechanism in ScramMechanism)
ITERATIONS_MIN: Final = 4096
ITERATIONS_MAX: Final = 16384


def find_mechanism(number: int) -> ScramMechanism | None:
    """Return the mechanism of a number in a request; None if it is unknown."""
    return ScramMechanism(number) if number in set(ScramMechanism) else None


def make_credential(mechanism: ScramMechanism, salt: bytes, salted_password: bytes, iterations: int) -> str:
    """Return a credential as text. The salted password cannot be computed from it."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.hash_name)
    fields = {"salt": salt, "stored_key": stored_key, "server_key": server_key}
    texts = [f"{name}={b64encode(value).decode()}" for name, value in fields.items()]
    return ",".join([*texts, f"iterations={iterations}"])


def iterations_of(credential: str) -> int:
    """Return the iterations of a credential. Raises ValueError, without the credential, if it is invalid."""
    for field in credential.split(","):
        name, _, value = field.partition("=")
        if name == "iterations" and value.isdecimal() and len(value) <= 10:
            return int(value)
    raise ValueError("a SCRAM credential must have iterations")


class ScramCredentialCache:
    """Credentials by mechanism and user, kept up to date by the notifications of changes."""

    def __init__(self) -> None:
        self._credentials: dict[str, dict[str, str]] = {}

    def scram_credential(self, mechanism: str, user: str) -> str | None:
        """Return the credential of a user for a mechanism such as ``SCRAM-SHA-256``."""
        return self._credentials.get(user, {}).get(mechanism)

    def update(self, user: str, config: Mapping[str, str]) -> None:
        """Take the credentials from the configs of a user; others of the user are removed."""
        credentials = {name: config[name] for name in MECHANISM_NAMES if config.get(name)}
        if credentials:
            self._credentials[user] = credentials
        else:
            self._credentials.pop(user, None)

    def replace(self, configs: Mapping[str, Mapping[str, str]]) -> None:
        """Take the credentials from the configs of all users."""
        self._credentials = {}
        for user, config in configs.items():
            self.update(user, config)
