"""Config methods of the admin client, with an in-memory broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.configs import ConfigChange, ConfigResource, config_text
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import ConfigSource, ConfigType

RunWithAdmin = Callable[..., None]
A = ConfigResource.topic("a")


def test_alter_configs_sets_and_resets_a_config(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        await fixture.admin.alter_configs({A: {"retention.ms": 1234, "preallocate": True}})
        entries = (await fixture.admin.describe_configs([A]))[A]
        assert (entries["retention.ms"].value, entries["retention.ms"].source) == (
            "1234",
            ConfigSource.TOPIC_CONFIG,
        )
        assert not entries["retention.ms"].is_default
        await fixture.admin.alter_configs({A: {"retention.ms": None}})
        entries = (await fixture.admin.describe_configs([A]))[A]
        assert entries["retention.ms"].is_default
        assert entries["preallocate"].value == "true"

    run_with_admin(scenario)


def test_alter_configs_appends_to_and_subtracts_from_a_list(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])

        async def policy() -> str | None:
            value: str | None = (await fixture.admin.describe_configs([A]))[A]["cleanup.policy"].value
            return value

        await fixture.admin.alter_configs({A: {"cleanup.policy": ConfigChange.append("compact")}})
        assert await policy() == "delete,compact"
        await fixture.admin.alter_configs({A: {"cleanup.policy": ConfigChange.subtract("delete")}})
        assert await policy() == "compact"

    run_with_admin(scenario)


def test_replace_configs_resets_all_others(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        await fixture.admin.alter_configs({A: {"retention.ms": 1234}})
        await fixture.admin.replace_configs({A: {"segment.bytes": 5000}})
        entries = (await fixture.admin.describe_configs([A]))[A]
        assert entries["retention.ms"].is_default
        assert entries["segment.bytes"].value == "5000"

    run_with_admin(scenario)


def test_describe_configs_with_synonyms_and_documentation(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        configs = await fixture.admin.describe_configs(
            [A], names=["segment.bytes"], include_synonyms=True, include_documentation=True
        )
        entry = configs[A]["segment.bytes"]
        assert list(configs[A]) == ["segment.bytes"]
        assert entry.type is ConfigType.INT
        assert entry.documentation
        assert [synonym.name for synonym in entry.synonyms] == ["log.segment.bytes"]

    run_with_admin(scenario)


def test_broker_configs_are_sent_to_that_broker(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        broker = ConfigResource.broker(fixture.memory.broker.broker_id)
        all_brokers = ConfigResource.broker()
        await fixture.admin.alter_configs({broker: {"log.cleaner.threads": 2}})
        await fixture.admin.alter_configs({all_brokers: {"log.retention.ms": 99_000}})
        entries = await fixture.admin.describe_configs([broker, all_brokers])
        assert entries[broker]["log.cleaner.threads"].source is ConfigSource.DYNAMIC_BROKER_CONFIG
        assert entries[all_brokers]["log.retention.ms"].value == "99000"

    run_with_admin(scenario)


def test_config_errors_name_the_resource(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match=r"topic a: INVALID_CONFIG: .*retention.ms"):
            await fixture.admin.alter_configs({A: {"retention.ms": "soon"}})
        unknown_topic, unknown_broker = ConfigResource.topic("nothing"), ConfigResource.broker(77)
        with pytest.raises(PartialFailure) as raised:
            await fixture.admin.describe_configs([A, unknown_topic, unknown_broker])
        assert raised.value.errors[unknown_topic].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "no broker 77" in str(raised.value.errors[unknown_broker])
        assert list(raised.value.results) == [A]

    run_with_admin(scenario)


def test_validate_only_changes_no_config(run_with_admin: RunWithAdmin) -> None:
    async def scenario(fixture: Any) -> None:
        await fixture.admin.create_topics(["a"])
        await fixture.admin.alter_configs({A: {"retention.ms": 1}}, validate_only=True)
        assert (await fixture.admin.describe_configs([A]))[A]["retention.ms"].is_default

    run_with_admin(scenario)


def test_config_text_of_python_values() -> None:
    values = [True, False, 5, 0.5, "x", ["a", "b"], None]
    assert [config_text(value) for value in values] == ["true", "false", "5", "0.5", "x", "a,b", None]
