"""New partitions while every disk is full: they come online once there is space."""

import errno

from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

DELETE_TOPICS = 20


class Disk:
    """Disk that rejects new logs while full."""

    def __init__(self, files):
        self.is_full = True
        self._write = files.write
        files.write = self.write

    def write(self, path, inode, position, data):
        if self.is_full and "/orders-" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        self._write(path, inode, position, data)


def test_new_partitions_come_online_once_there_is_disk_space(run_scenario):
    async def scenario(harness):
        disk = Disk(harness.cluster.files)
        await harness.create("orders", 3)
        assert (await harness.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await harness.cluster.clock.sleep_ms(60_000)
        assert (await harness.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.is_full = False
        await harness.cluster.clock.sleep_ms(10_000)
        for number in range(3):
            assert (await harness.produce("orders", b"x", partition=number)).error_code == 0
            assert await harness.values("orders", partition=number) == [b"x"]

    run_scenario(scenario)


def test_topic_deleted_on_a_full_disk_does_not_come_back(run_scenario):
    async def scenario(harness):
        disk = Disk(harness.cluster.files)
        await harness.create("orders", 3)
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 10_000)
        assert (await harness.request(DELETE_TOPICS, 6, request)).responses[0].error_code == 0
        disk.is_full = False
        await harness.cluster.clock.sleep_ms(120_000)
        assert harness.broker.metadata_cache.topic("orders") is None
        left = [name for name in harness.cluster.files.list_names("/data") if name.startswith("orders")]
        assert left == []
        assert await harness.create("orders") == 0
        assert (await harness.produce("orders", b"x")).error_code == 0

    run_scenario(scenario)
