"""The two sides of a SASL mechanism. One object serves one exchange."""

from __future__ import annotations

from typing import Final, Protocol

PLAIN: Final = "PLAIN"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
OAUTHBEARER: Final = "OAUTHBEARER"
GSSAPI: Final = "GSSAPI"


class SaslRefused(Exception):
    """Raised when an exchange must end: the message may be sent to the peer, and holds no secret.

    ``detail`` is for the broker's own log; it holds no secret either.
    """

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class InvalidCredentials(SaslRefused):
    """Refusal for a reason that the peer must not learn, such as an unknown user.

    All of them have the same message; as in Kafka, it tells an authentication from a re-authentication.
    """

    def __init__(self, mechanism: str, detail: str) -> None:
        super().__init__(_invalid_credentials(mechanism, "authentication"), detail)
        self.mechanism = mechanism

    @property
    def message_on_reauthentication(self) -> str:
        return _invalid_credentials(self.mechanism, "re-authentication")


def _invalid_credentials(mechanism: str, phase: str) -> str:
    return f"Authentication failed during {phase} due to invalid credentials with SASL mechanism {mechanism}"


class SaslServer(Protocol):
    """The broker's side of one exchange.

    After a refusal the exchange is over: every further call of ``evaluate`` raises SaslRefused.
    """

    def evaluate(self, response: bytes) -> bytes:
        """Take the client's next message and return the answer, which may be empty. Raises SaslRefused."""
        ...

    @property
    def is_complete(self) -> bool:
        """True once the client is authenticated."""
        ...

    @property
    def authorization_id(self) -> str:
        """The name of the authenticated user; of a delegation token, its owner. Empty until complete."""
        ...

    @property
    def expires_at_ms(self) -> int | None:
        """Wall time at which the credential expires (KIP-368), or None."""
        ...

    @property
    def is_token(self) -> bool:
        """True if the client authenticated with a delegation token."""
        ...


class SaslClient(Protocol):
    """The client's side of one exchange. ``start`` comes first, and is called once."""

    def start(self) -> bytes:
        """Return the first message, which may be empty."""
        ...

    def evaluate(self, challenge: bytes) -> bytes | None:
        """Take the broker's answer; return the next message, or None once complete. Raises SaslRefused."""
        ...

    @property
    def is_complete(self) -> bool:
        """True once the broker has proven what the mechanism asks of it, and nothing is left to send."""
        ...
