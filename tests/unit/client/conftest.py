"""In-memory broker and clients on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest
from tests.support.simulation.client_fixture import ClientFixture

from odradek.records.batch import BatchBuilder
from odradek.testing.broker import running_broker
from odradek.testing.clock import run_virtually


@pytest.fixture(scope="session")
def run_with_client() -> Callable[..., None]:
    """Run a scenario with its own broker; check that its clients are closed completely."""

    def run(
        scenario: Callable[[ClientFixture], Awaitable[None]],
        settings: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        async def main() -> None:
            async with running_broker(settings, **options) as (memory, broker):
                fixture = ClientFixture(memory, broker)
                await scenario(fixture)
                await fixture.close()

        run_virtually(main)

    return run


@pytest.fixture(scope="session")
def make_records() -> Callable[..., bytearray]:
    """Return a batch with these values."""

    def build(*values: bytes) -> bytearray:
        builder = BatchBuilder()
        for index, value in enumerate(values):
            builder.append(1000 + index, None, value)
        return bytearray(builder.build())

    return build
