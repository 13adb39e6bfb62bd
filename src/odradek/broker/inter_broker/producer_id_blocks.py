"""Blocks of producer ids from the controller (AllocateProducerIds), from inter-broker protocol 3.0 on."""

from __future__ import annotations

from collections.abc import Callable

from odradek.model.client_errors import ClientError
from odradek.model.errors import BrokerError, ErrorCode
from odradek.net.broker_requests import BrokerRequests
from odradek.store.layout.znodes import ProducerIdBlock
from odradek.telemetry import events
from odradek.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest

log = events.logger("producer_ids")


class ControllerBlocks:
    """Blocks of one broker, each from a request to the controller.

    A failed request is not repeated here: the client gets COORDINATOR_LOAD_IN_PROGRESS and asks again.
    """

    def __init__(
        self,
        requests: BrokerRequests,
        broker_id: int,
        broker_epoch: Callable[[], int],
        timeout_ms: Callable[[], int],
    ) -> None:
        self._requests = requests
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._timeout_ms = timeout_ms

    async def allocate(self) -> ProducerIdBlock:
        request = AllocateProducerIdsRequest(self._broker_id, self._broker_epoch())
        try:
            response = await self._requests.send_to_controller(request, self._timeout_ms())
        except ClientError as error:
            raise self._failure(str(error)) from error
        if response.error_code:
            raise self._failure(ErrorCode(response.error_code).name)
        first, count = response.producer_id_start, response.producer_id_len
        if count < 1:
            raise self._failure(f"the controller allocated {count} ids")
        return ProducerIdBlock(self._broker_id, first, first + count - 1)

    def _failure(self, reason: str) -> BrokerError:
        log.warning("producer_ids_not_allocated", reason=reason)
        return BrokerError(
            ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"no block of producer ids from the controller: {reason}"
        )
