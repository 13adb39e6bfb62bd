"""Fixtures of the controller tests."""

import asyncio

import pytest
from tests.unit.controller.controller_fixture import ControllerFixture

from odradek.store.embedded.database import MEMORY
from odradek.store.embedded.ensemble import EmbeddedEnsemble
from odradek.testing.clock import VirtualClock, run_virtually


@pytest.fixture
def run_scenario():
    def run(scenario):
        async def main():
            clock = VirtualClock(asyncio.get_running_loop())
            ensemble = EmbeddedEnsemble(MEMORY, clock)
            fixture = ControllerFixture(ensemble, clock)
            try:
                await fixture.open()
                await scenario(fixture)
            finally:
                await fixture.controller.stop()
                await ensemble.close()

        run_virtually(main)

    return run
