"""ListOffsets: special timestamps by version."""

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}


async def codes(harness, version, timestamps, topic="orders"):
    result = []
    for timestamp in timestamps:
        parts = [ListOffsetsPartition(0, timestamp=timestamp)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, parts)])
        entry = (await harness.request(LIST_OFFSETS, version, request)).topics[0].partitions[0]
        assert entry.error_code == 0 or (entry.timestamp, entry.offset) == (-1, -1)
        result.append(entry.error_code)
    return result


@pytest.mark.parametrize("version", range(1, 10))
def test_special_timestamp_is_rejected_below_its_first_version(run_scenario, version):
    async def scenario(harness):
        await harness.create("orders")
        await harness.produce("orders", b"x")
        expected = [0 if version >= since else ErrorCode.UNSUPPORTED_VERSION for since in SINCE.values()]
        assert await codes(harness, version, SINCE) == expected
        unknown = [-6, -7, -(2**63)]
        assert await codes(harness, version, unknown) == [ErrorCode.UNSUPPORTED_VERSION] * 3

    run_scenario(scenario)


def test_timestamp_is_checked_before_the_partition(run_scenario):
    async def scenario(harness):
        rejected = [ErrorCode.UNSUPPORTED_VERSION]
        assert await codes(harness, 6, [-3], "nowhere") == rejected
        assert await codes(harness, 9, [-6], "nowhere") == rejected
        assert await codes(harness, 7, [-3], "nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    run_scenario(scenario)
