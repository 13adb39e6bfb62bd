"""Settings through the admin client, against a whole broker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from odradek.client.admin.configs import ConfigChange, ConfigResource, setting_text
from odradek.model.client_errors import PartialFailure
from odradek.model.errors import ErrorCode
from odradek.model.protocol_enums import ConfigSource, ConfigType

Play = Callable[..., None]
A = ConfigResource.topic("a")


def test_a_setting_is_set_and_put_back(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        await scene.admin.alter_configs({A: {"retention.ms": 1234, "preallocate": True}})
        entries = (await scene.admin.describe_configs([A]))[A]
        assert (entries["retention.ms"].value, entries["retention.ms"].source) == (
            "1234",
            ConfigSource.TOPIC_CONFIG,
        )
        assert not entries["retention.ms"].is_default
        await scene.admin.alter_configs({A: {"retention.ms": None}})
        entries = (await scene.admin.describe_configs([A]))[A]
        assert entries["retention.ms"].is_default
        assert entries["preallocate"].value == "true"

    play(scenario)


def test_words_are_added_to_a_list_and_taken_from_it(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])

        async def policy() -> str | None:
            value: str | None = (await scene.admin.describe_configs([A]))[A]["cleanup.policy"].value
            return value

        await scene.admin.alter_configs({A: {"cleanup.policy": ConfigChange.append("compact")}})
        assert await policy() == "delete,compact"
        await scene.admin.alter_configs({A: {"cleanup.policy": ConfigChange.subtract("delete")}})
        assert await policy() == "compact"

    play(scenario)


def test_replacing_puts_all_others_back(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        await scene.admin.alter_configs({A: {"retention.ms": 1234}})
        await scene.admin.replace_configs({A: {"segment.bytes": 5000}})
        entries = (await scene.admin.describe_configs([A]))[A]
        assert entries["retention.ms"].is_default
        assert entries["segment.bytes"].value == "5000"

    play(scenario)


def test_named_settings_come_with_synonyms_and_documentation_if_asked_for(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        found = await scene.admin.describe_configs(
            [A], names=["segment.bytes"], include_synonyms=True, include_documentation=True
        )
        entry = found[A]["segment.bytes"]
        assert list(found[A]) == ["segment.bytes"]
        assert entry.type is ConfigType.INT
        assert entry.documentation
        assert [one.name for one in entry.synonyms] == ["log.segment.bytes"]

    play(scenario)


def test_a_brokers_settings_are_asked_and_changed_at_that_broker(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        broker = ConfigResource.broker(scene.memory.broker.broker_id)
        everywhere = ConfigResource.broker()
        await scene.admin.alter_configs({broker: {"log.cleaner.threads": 2}})
        await scene.admin.alter_configs({everywhere: {"log.retention.ms": 99_000}})
        entries = await scene.admin.describe_configs([broker, everywhere])
        assert entries[broker]["log.cleaner.threads"].source is ConfigSource.DYNAMIC_BROKER_CONFIG
        assert entries[everywhere]["log.retention.ms"].value == "99000"

    play(scenario)


def test_a_wrong_value_an_unknown_topic_and_an_unknown_broker_are_told_by_name(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        with pytest.raises(PartialFailure, match=r"topic a: INVALID_CONFIG: .*retention.ms"):
            await scene.admin.alter_configs({A: {"retention.ms": "soon"}})
        missing, stranger = ConfigResource.topic("nothing"), ConfigResource.broker(77)
        with pytest.raises(PartialFailure) as raised:
            await scene.admin.describe_configs([A, missing, stranger])
        assert raised.value.errors[missing].code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "no broker 77" in str(raised.value.errors[stranger])
        assert list(raised.value.results) == [A]

    play(scenario)


def test_a_dry_run_changes_nothing(play: Play) -> None:
    async def scenario(scene: Any) -> None:
        await scene.admin.create_topics(["a"])
        await scene.admin.alter_configs({A: {"retention.ms": 1}}, validate_only=True)
        assert (await scene.admin.describe_configs([A]))[A]["retention.ms"].is_default

    play(scenario)


def test_python_values_become_texts_as_brokers_write_them() -> None:
    given = [True, False, 5, 0.5, "x", ["a", "b"], None]
    assert [setting_text(one) for one in given] == ["true", "false", "5", "0.5", "x", "a,b", None]
