"""New partitions while every disk is full: they come online by themselves once there is room."""

import errno

from odradek.model.errors import ErrorCode
from odradek.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

DELETE_TOPICS = 20


class Disk:
    """Lets no new log be written while it is full."""

    def __init__(self, files):
        self.is_full = True
        self._write = files.write
        files.write = self.write

    def write(self, path, inode, position, data):
        if self.is_full and "/orders-" in path:
            raise OSError(errno.ENOSPC, "No space left on device", path)
        self._write(path, inode, position, data)


def test_partitions_come_online_once_there_is_room(play):
    async def scenario(town):
        disk = Disk(town.cluster.files)
        await town.create("orders", 3)
        assert (await town.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        await town.cluster.clock.sleep_ms(60_000)
        assert (await town.produce("orders", b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk.is_full = False
        await town.cluster.clock.sleep_ms(10_000)
        for number in range(3):
            assert (await town.produce("orders", b"x", partition=number)).error_code == 0
            assert await town.values("orders", partition=number) == [b"x"]

    play(scenario)


def test_a_topic_that_is_deleted_meanwhile_does_not_come_back(play):
    async def scenario(town):
        disk = Disk(town.cluster.files)
        await town.create("orders", 3)
        request = DeleteTopicsRequest([DeleteTopicState(name="orders")], [], 10_000)
        assert (await town.ask(DELETE_TOPICS, 6, request)).responses[0].error_code == 0
        disk.is_full = False
        await town.cluster.clock.sleep_ms(60_000)
        assert town.broker.image.topic("orders") is None
        left = [name for name in town.cluster.files.list_names("/data") if name.startswith("orders")]
        assert left == []
        assert await town.create("orders") == 0
        assert (await town.produce("orders", b"x")).error_code == 0

    play(scenario)
