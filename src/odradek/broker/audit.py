"""Audit: an event per authentication, refusal and administrative change, under the logger ``odradek.audit``.

An attacker could fill the disk with refusals, so events of the same kind, principal and address are bounded
per minute; the next one says how many were left out. No event holds a secret.
"""

from __future__ import annotations

from typing import Final

from odradek.ports.clock import Clock
from odradek.security.principal import KafkaPrincipal
from odradek.telemetry import events
from odradek.telemetry.rate_limited_events import RateLimitedEvents

log = events.logger("audit")

CHANGES_MAX: Final = 1000
"""Administrative changes that are logged for a principal and API per minute."""
REFUSALS_MAX: Final = 20
"""Refusals and authentications that are logged for a principal or address per minute."""
KINDS_MAX: Final = 10_000


class AuditLog:
    """The audit events of one broker."""

    def __init__(self, clock: Clock) -> None:
        self._refusals = RateLimitedEvents(
            log, clock.monotonic_ms, count_max=REFUSALS_MAX, kinds_max=KINDS_MAX
        )
        self._changes = RateLimitedEvents(log, clock.monotonic_ms, count_max=CHANGES_MAX, kinds_max=KINDS_MAX)

    def authenticated(self, principal: KafkaPrincipal, peer: str, listener: str, mechanism: str) -> None:
        self._refusals.info(
            "authenticated",
            f"authenticated {principal}",
            principal=str(principal),
            peer=peer,
            listener=listener,
            mechanism=mechanism,
        )

    def authentication_failed(
        self, peer_host: str, peer: str, listener: str, mechanism: str, reason: str
    ) -> None:
        self._refusals.warning(
            "authentication_failed",
            f"failed {peer_host}",
            peer=peer,
            listener=listener,
            mechanism=mechanism,
            reason=reason,
        )

    def denied(self, principal: KafkaPrincipal, host: str, api: str, operation: str, resource: str) -> None:
        """Log that an operation is not allowed."""
        self._refusals.warning(
            "denied",
            f"denied {principal} {api}",
            principal=str(principal),
            host=host,
            api=api,
            operation=operation,
            resource=resource,
        )

    def changed(self, principal: KafkaPrincipal, host: str, api: str, resource: str, result: str) -> None:
        """Log an administrative change, or the attempt of one."""
        self._changes.info(
            "changed",
            f"changed {principal} {api}",
            principal=str(principal),
            host=host,
            api=api,
            resource=resource,
            result=result,
        )
