"""Controlled shutdown: the controller moves the leaderships of a broker before it stops serving."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from odradek.config import broker as settings
from odradek.config.definition import Settings
from odradek.model.client_errors import ClientError
from odradek.model.errors import ErrorCode
from odradek.net.broker_requests import BrokerRequests
from odradek.ports.clock import Clock
from odradek.store.controller_election import read_controller
from odradek.store.port import StoreError, StoreProvider
from odradek.telemetry import events
from odradek.wire.messages.controlled_shutdown import ControlledShutdownRequest

log = events.logger("broker")


class ControlledShutdownSettings(NamedTuple):
    is_enabled: bool
    attempts_max: int
    retry_backoff_ms: int
    timeout_ms: int

    @classmethod
    def of(cls, values: Settings) -> ControlledShutdownSettings:
        return cls(
            values[settings.CONTROLLED_SHUTDOWN_ENABLE],
            values[settings.CONTROLLED_SHUTDOWN_MAX_RETRIES],
            values[settings.CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS],
            values[settings.REQUEST_TIMEOUT_MS],
        )


async def shut_down_controlled(
    limits: ControlledShutdownSettings,
    broker_id: int,
    broker_epoch: Callable[[], int],
    stores: StoreProvider,
    requests: BrokerRequests,
    clock: Clock,
    version: int,
) -> bool:
    """Ask the controller to move all leaderships, until none is left or the attempts are used up.

    Return whether none is left. The broker stops in either case.
    """
    if not limits.is_enabled:
        return False
    for _ in range(limits.attempts_max):
        # From the store: the metadata cache may still name a controller that has stopped.
        try:
            controller = await read_controller(stores.store)
            if controller is None:
                reason = "there is no controller"
            else:
                response = await requests.send(
                    controller.broker_id,
                    ControlledShutdownRequest(broker_id, broker_epoch()),
                    limits.timeout_ms,
                    version_max=version,
                )
                if response.error_code == ErrorCode.NONE and not response.remaining_partitions:
                    log.info("controlled_shutdown_completed", broker=broker_id)
                    return True
                remaining = len(response.remaining_partitions)
                reason = f"{ErrorCode(response.error_code).name}, {remaining} partitions left"
        except (ClientError, StoreError) as error:
            reason = str(error)
        log.warning("controlled_shutdown_retry", broker=broker_id, reason=reason)
        await clock.sleep_ms(limits.retry_backoff_ms)
    log.warning("controlled_shutdown_failed", broker=broker_id)
    return False
