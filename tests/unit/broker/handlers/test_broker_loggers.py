"""Log levels of the broker: describe and alter."""

import io
import logging

import pytest

from odradek.model.errors import ErrorCode
from odradek.telemetry import events
from odradek.wire.messages import alter_configs as full
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
    """Captured log lines; levels are restored afterwards."""
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


async def describe(harness, name=None, keys=None, version=4):
    name = str(harness.broker.broker_id) if name is None else name
    request = DescribeConfigsRequest([DescribeConfigsResource(BROKER_LOGGER, name, keys)])
    return (await harness.request(DESCRIBE, version, request)).results[0]


async def levels(harness, keys=None):
    return {config.name: config.value for config in (await describe(harness, keys=keys)).configs}


async def alter(harness, *changes, name=None, validate_only=False):
    name = str(harness.broker.broker_id) if name is None else name
    configs = [AlterableConfig(logger, operation, level) for logger, operation, level in changes]
    request = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(BROKER_LOGGER, name, configs)], validate_only
    )
    return (await harness.request(ALTER, 1, request)).responses[0]


@pytest.mark.parametrize("version", range(5))
def test_loggers_are_described_with_their_levels(run_scenario, version):
    async def scenario(harness):
        result = await describe(harness, version=version)
        assert result.error_code == 0
        actual = {config.name: config for config in result.configs}
        assert {"root", TOPICS, "odradek.broker"} <= actual.keys()
        level = actual[TOPICS]
        assert (level.value, level.read_only, level.is_sensitive) == ("WARN", False, False)
        assert level.config_source == (LOGGER_SOURCE if version >= 1 else -1)
        assert (await describe(harness, keys=["root"], version=version)).configs[0].value == "WARN"

    run_scenario(scenario)


def test_level_applies_at_once_and_a_deleted_one_follows_the_root_logger(run_scenario, written):
    async def scenario(harness):
        await harness.create("first")
        assert (await alter(harness, (TOPICS, SET, "INFO"))).error_code == 0
        assert (await levels(harness, [TOPICS, "root"])) == {TOPICS: "INFO", "root": "WARN"}
        await harness.create("second")
        assert (await alter(harness, (TOPICS, DELETE, None))).error_code == 0
        assert (await levels(harness, [TOPICS])) == {TOPICS: "WARN"}
        await harness.create("third")
        assert (await alter(harness, ("root", SET, "DEBUG"))).error_code == 0
        assert (await levels(harness, [TOPICS, "root"])) == {TOPICS: "DEBUG", "root": "DEBUG"}
        await harness.create("fourth")

    run_scenario(scenario)
    created = [line for line in written.getvalue().splitlines() if "topics.topic_created" in line]
    assert [line.split("topic=")[1].split()[0] for line in created] == ["second", "fourth"]


@pytest.mark.parametrize("level", ["FATAL", "ERROR", "WARN", "INFO", "DEBUG", "TRACE"])
def test_every_kafka_level_is_accepted(run_scenario, level):
    async def scenario(harness):
        assert (await alter(harness, (TOPICS, SET, level))).error_code == 0
        assert await levels(harness, [TOPICS]) == {TOPICS: level}

    run_scenario(scenario)


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
def test_invalid_level_change_is_rejected_and_changes_nothing(run_scenario, change, code):
    async def scenario(harness):
        response = await alter(harness, ("odradek.session", SET, "DEBUG"), change)
        assert (response.error_code, bool(response.error_message)) == (code, True)
        assert await levels(harness, ["odradek.session"]) == {"odradek.session": "WARN"}
        assert await levels(harness, ["odradek.nothing"]) == {}

    run_scenario(scenario)


def test_validate_only_changes_no_level(run_scenario):
    async def scenario(harness):
        assert (await alter(harness, (TOPICS, SET, "DEBUG"), validate_only=True)).error_code == 0
        assert await levels(harness, [TOPICS]) == {TOPICS: "WARN"}

    run_scenario(scenario)


@pytest.mark.parametrize("name", ["", "x", "77"])
def test_only_loggers_of_this_broker_are_described_and_altered(run_scenario, name):
    async def scenario(harness):
        assert (await describe(harness, name)).error_code == ErrorCode.INVALID_REQUEST
        response = await alter(harness, (TOPICS, SET, "DEBUG"), name=name)
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert await levels(harness, [TOPICS]) == {TOPICS: "WARN"}

    run_scenario(scenario)


def test_alter_configs_rejects_loggers(run_scenario):
    async def scenario(harness):
        name = str(harness.broker.broker_id)
        resource = full.AlterConfigsResource(BROKER_LOGGER, name, [full.AlterableConfig(TOPICS, "INFO")])
        response = (await harness.request(REPLACE, 2, full.AlterConfigsRequest([resource], False))).responses[
            0
        ]
        assert response.error_code == ErrorCode.INVALID_REQUEST
        assert await levels(harness, [TOPICS]) == {TOPICS: "WARN"}

    run_scenario(scenario)
