"""The contract of requests between brokers, in memory and on real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest
import uvloop

from odradek.broker.inter_broker.broker_requests import InterBrokerRequests
from odradek.system.clock import SystemClock
from odradek.system.network import SocketNetwork
from odradek.testing.clock import VirtualClock, VirtualLoop, run_virtually
from odradek.testing.contracts.broker_requests_contract import (
    LISTENER,
    LOCAL_ID,
    TIMEOUT_MS,
    BrokerRequestsContract,
    ClusterFixture,
)
from odradek.testing.contracts.network_contract import HOST, RunOnNetwork
from odradek.testing.entropy import SeededEntropy
from odradek.testing.network import MemoryNetwork


class _InterBroker(BrokerRequestsContract):
    def make_requests(self, fixture: ClusterFixture) -> InterBrokerRequests:
        loop = asyncio.get_running_loop()
        clock = VirtualClock(loop) if isinstance(loop, VirtualLoop) else SystemClock()
        requests = InterBrokerRequests(
            LOCAL_ID,
            LISTENER,
            fixture.metadata_cache,
            fixture.network,
            clock,
            SeededEntropy(),
            request_timeout_ms=TIMEOUT_MS,
        )
        requests.call_local = fixture.call_local
        return requests


class TestInMemory(_InterBroker):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        async def run(scenario: Any) -> None:
            await scenario(MemoryNetwork(SeededEntropy()).host(HOST))

        return lambda scenario: run_virtually(lambda: run(scenario))


class TestOnSockets(_InterBroker):
    @pytest.fixture
    def run_on_network(self) -> RunOnNetwork:
        return lambda scenario: uvloop.run(_as_coroutine(scenario(SocketNetwork())))


async def _as_coroutine(awaitable: Awaitable[None]) -> None:
    await awaitable
