"""Client quotas of the admin client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.quotas import ClientQuotaEntity, QuotaName
from odradek.client.admin.topics import NewTopic
from odradek.model.client_errors import PartialFailure, RequestRefused
from odradek.model.errors import ErrorCode

RunWithAdmin = Callable[..., None]
ALICE = ClientQuotaEntity(user="alice")
PAIR = ClientQuotaEntity(user="alice", client_id="app")
DEFAULT_USER = ClientQuotaEntity(user=QuotaName.DEFAULT)
ADDRESS = ClientQuotaEntity(ip="10.0.0.1")


def test_quotas_are_altered_and_described(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        admin = fixture.admin
        quotas: dict[ClientQuotaEntity, dict[str, float | None]] = {
            ALICE: {"producer_byte_rate": 1000, "request_percentage": 12.5},
            PAIR: {"consumer_byte_rate": 2000},
            DEFAULT_USER: {"controller_mutation_rate": 0.5},
            ADDRESS: {"connection_creation_rate": 3},
        }
        await admin.alter_client_quotas(quotas)
        assert await admin.describe_client_quotas() == quotas
        assert set(await admin.describe_client_quotas(user="alice")) == {ALICE, PAIR}
        assert set(await admin.describe_client_quotas(user="alice", strict=True)) == {ALICE}
        assert set(await admin.describe_client_quotas(user=QuotaName.DEFAULT)) == {DEFAULT_USER}
        assert set(await admin.describe_client_quotas(user=QuotaName.ANY, strict=True)) == {
            ALICE,
            DEFAULT_USER,
        }
        assert set(await admin.describe_client_quotas(user="alice", client_id=QuotaName.ANY)) == {PAIR}
        assert set(await admin.describe_client_quotas(ip=QuotaName.ANY)) == {ADDRESS}
        await admin.alter_client_quotas(
            {ALICE: {"producer_byte_rate": None}, ADDRESS: dict.fromkeys(quotas[ADDRESS])}
        )
        assert await admin.describe_client_quotas(user="alice", strict=True) == {
            ALICE: {"request_percentage": 12.5}
        }
        assert await admin.describe_client_quotas(ip=QuotaName.ANY) == {}

    run_with_admin(scenario)


def test_each_entity_has_its_error(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        invalid = ClientQuotaEntity(ip="nowhere")
        changes = {ALICE: {"producer_byte_rate": 1.0}, invalid: {"connection_creation_rate": 1.0}}
        with pytest.raises(PartialFailure, match="nowhere") as raised:
            await fixture.admin.alter_client_quotas(changes)
        assert raised.value.results == {ALICE: None}
        assert raised.value.errors[invalid].code is ErrorCode.INVALID_REQUEST
        with pytest.raises(RequestRefused, match="must not be combined"):
            await fixture.admin.describe_client_quotas(user="alice", ip="10.0.0.1")

    run_with_admin(scenario)


@pytest.mark.parametrize("entity", [ClientQuotaEntity(), ClientQuotaEntity(user=QuotaName.ANY)])
def test_quota_needs_an_entity(run_with_admin: RunWithAdmin, entity: ClientQuotaEntity) -> None:
    async def scenario(fixture: Any) -> None:
        with pytest.raises(ValueError, match="must"):
            await fixture.admin.alter_client_quotas({entity: {"producer_byte_rate": 1.0}})

    run_with_admin(scenario)


def test_only_validated_quotas_are_not_set(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.alter_client_quotas({ALICE: {"producer_byte_rate": 1.0}}, validate_only=True)
        assert await fixture.admin.describe_client_quotas() == {}

    run_with_admin(scenario)


def test_admin_client_waits_until_its_quota_allows_the_change(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        everyone = ClientQuotaEntity(user="ANONYMOUS")
        await fixture.admin.alter_client_quotas({everyone: {"controller_mutation_rate": 1.0}})
        await fixture.cluster.clock.sleep_ms(100)
        started_ms = fixture.cluster.clock.monotonic_ms()
        await fixture.admin.create_topics([NewTopic("a", 20)])
        await fixture.admin.create_topics([NewTopic("b", 1)])
        assert 7_000 < fixture.cluster.clock.monotonic_ms() - started_ms < 15_000

    run_with_admin(scenario)
