"""ListOffsets: which special timestamps a request's version may carry."""

import pytest

from odradek.model.errors import ErrorCode
from odradek.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

LIST_OFFSETS = 2
SINCE = {-1: 1, -2: 1, -3: 7, -4: 8, -5: 9}


async def codes(town, version, timestamps, topic="orders"):
    found = []
    for timestamp in timestamps:
        parts = [ListOffsetsPartition(0, timestamp=timestamp)]
        request = ListOffsetsRequest(-1, 0, [ListOffsetsTopic(topic, parts)])
        entry = (await town.ask(LIST_OFFSETS, version, request)).topics[0].partitions[0]
        assert entry.error_code == 0 or (entry.timestamp, entry.offset) == (-1, -1)
        found.append(entry.error_code)
    return found


@pytest.mark.parametrize("version", range(1, 10))
def test_a_special_timestamp_is_refused_below_the_version_that_brought_it(play, version):
    async def scenario(town):
        await town.create("orders")
        await town.produce("orders", b"x")
        expected = [0 if version >= since else ErrorCode.UNSUPPORTED_VERSION for since in SINCE.values()]
        assert await codes(town, version, SINCE) == expected
        unknown = [-6, -7, -(2**63)]
        assert await codes(town, version, unknown) == [ErrorCode.UNSUPPORTED_VERSION] * 3

    play(scenario)


def test_the_timestamp_is_judged_before_the_partition_is_looked_up(play):
    async def scenario(town):
        refused = [ErrorCode.UNSUPPORTED_VERSION]
        assert await codes(town, 6, [-3], "nowhere") == refused
        assert await codes(town, 9, [-6], "nowhere") == refused
        assert await codes(town, 7, [-3], "nowhere") == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]

    play(scenario)
