"""Levels of the broker's loggers, described and altered while it runs."""

import io
import logging

import pytest

from odradek.model.errors import ErrorCode
from odradek.telemetry import events
from odradek.wire.messages import alter_configs as whole
from odradek.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from odradek.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

BROKER_LOGGER = 8
DESCRIBE, REPLACE, ALTER = 32, 33, 44
SET, DELETE, APPEND, SUBTRACT = range(4)
LOGGER_SOURCE = 6
TOPICS = "odradek.topics"


@pytest.fixture(autouse=True)
def written():
    """The lines that loggers write; their levels are as before afterwards."""
    root = logging.getLogger(events.ROOT)
    before = (root.level, root.handlers[:], root.propagate)
    stream = io.StringIO()
    events.configure(stream, "warning")
    yield stream
    root.setLevel(before[0])
    root.handlers[:], root.propagate = before[1], before[2]
    for name in list(logging.root.manager.loggerDict):
        if name.startswith(f"{events.ROOT}."):
            logging.getLogger(name).setLevel(logging.NOTSET)


async def describe(town, name=None, keys=None, version=4):
    name = str(town.broker.broker_id) if name is None else name
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER_LOGGER, name, keys)])
    return (await town.ask(DESCRIBE, version, request)).results[0]


async def levels(town, keys=None):
    return {one.name: one.value for one in (await describe(town, keys=keys)).configs}


async def alter(town, *changes, name=None, validate_only=False):
    name = str(town.broker.broker_id) if name is None else name
    configs = [AlterableConfig(logger, operation, level) for logger, operation, level in changes]
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(BROKER_LOGGER, name, configs)], validate_only
    )
    return (await town.ask(ALTER, 1, request)).responses[0]


@pytest.mark.parametrize("version", range(5))
def test_loggers_are_described_with_their_levels(play, version):
    async def scenario(town):
        result = await describe(town, version=version)
        assert result.error_code == 0
        found = {one.name: one for one in result.configs}
        assert {"root", TOPICS, "odradek.broker"} <= found.keys()
        one = found[TOPICS]
        assert (one.value, one.read_only, one.is_sensitive) == ("WARN", False, False)
        assert one.config_source == (LOGGER_SOURCE if version >= 1 else -1)
        assert (await describe(town, keys=["root"], version=version)).configs[0].value == "WARN"

    play(scenario)


def test_a_level_counts_at_once_and_a_deleted_one_follows_the_root(play, written):
    async def scenario(town):
        await town.create("first")
        assert (await alter(town, (TOPICS, SET, "INFO"))).error_code == 0
        assert (await levels(town, [TOPICS, "root"])) == {TOPICS: "INFO", "root": "WARN"}
        await town.create("second")
        assert (await alter(town, (TOPICS, DELETE, None))).error_code == 0
        assert (await levels(town, [TOPICS])) == {TOPICS: "WARN"}
        await town.create("third")
        assert (await alter(town, ("root", SET, "DEBUG"))).error_code == 0
        assert (await levels(town, [TOPICS, "root"])) == {TOPICS: "DEBUG", "root": "DEBUG"}
        await town.create("fourth")

    play(scenario)
    created = [line for line in written.getvalue().splitlines() if "topics.topic_created" in line]
    assert [line.split("topic=")[1].split()[0] for line in created] == ["second", "fourth"]


@pytest.mark.parametrize("level", ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_every_level_of_kafka_is_known(play, level):
    async def scenario(town):
        assert (await alter(town, (TOPICS, SET, level))).error_code == 0
        assert await levels(town, [TOPICS]) == {TOPICS: level}

    play(scenario)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((TOPICS, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ((TOPICS, SET, "info"), ErrorCode.INVALID_CONFIG),
        (("odradek.nothing", SET, "INFO"), ErrorCode.INVALID_CONFIG),
        (("odradek.nothing", DELETE, None), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        ((TOPICS, APPEND, "INFO"), ErrorCode.INVALID_REQUEST),
        ((TOPICS, SUBTRACT, "INFO"), ErrorCode.INVALID_REQUEST),
        ((TOPICS, 9, "INFO"), ErrorCode.INVALID_REQUEST),
        ((TOPICS, SET, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_is_refused_and_changes_nothing(play, change, code):
    async def scenario(town):
        answer = await alter(town, ("odradek.session", SET, "DEBUG"), change)
        assert (answer.error_code, bool(answer.error_message)) == (code, True)
        assert await levels(town, ["odradek.session"]) == {"odradek.session": "WARN"}
        assert await levels(town, ["odradek.nothing"]) == {}

    play(scenario)


def test_validating_changes_nothing(play):
    async def scenario(town):
        assert (await alter(town, (TOPICS, SET, "DEBUG"), validate_only=True)).error_code == 0
        assert await levels(town, [TOPICS]) == {TOPICS: "WARN"}

    play(scenario)


@pytest.mark.parametrize("name", ["", "x", "77"])
def test_only_this_brokers_loggers_can_be_asked_and_altered(play, name):
    async def scenario(town):
        assert (await describe(town, name)).error_code == ErrorCode.INVALID_REQUEST
        answer = await alter(town, (TOPICS, SET, "DEBUG"), name=name)
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert await levels(town, [TOPICS]) == {TOPICS: "WARN"}

    play(scenario)


def test_alter_configs_is_not_for_loggers(play):
    async def scenario(town):
        name = str(town.broker.broker_id)
        resource = whole.AlterConfigsResource(BROKER_LOGGER, name, [whole.AlterableConfig(TOPICS, "INFO")])
        answer = (await town.ask(REPLACE, 2, whole.AlterConfigsRequest([resource], False))).responses[0]
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert await levels(town, [TOPICS]) == {TOPICS: "WARN"}

    play(scenario)
