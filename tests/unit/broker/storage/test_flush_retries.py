"""A flush that found no room is made up for, without waiting for the next append."""

import errno

from odradek.model.errors import ErrorCode


def test_the_high_watermark_goes_on_once_there_is_room(play):
    async def scenario(town):
        await town.create("orders", settings={"flush.messages": "1"})
        town.cluster.files.fail_next_write(errno.ENOSPC, name_end="leader-epoch-checkpoint.tmp")
        refused = await town.produce("orders", b"kept")
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await town.fetch("orders")).high_watermark == 0
        await town.cluster.clock.sleep_ms(2_000)
        assert (await town.fetch("orders")).high_watermark == 1
        assert await town.values("orders") == [b"kept"]

    play(scenario)


def test_a_disk_that_stays_full_is_asked_again_and_again(play):
    async def scenario(town):
        await town.create("orders", settings={"flush.messages": "1"})
        files = town.cluster.files
        write, refused = files.write, 0

        def full(path, inode, position, data):
            nonlocal refused
            if path.endswith("leader-epoch-checkpoint.tmp") and refused < 5:
                refused += 1
                raise OSError(errno.ENOSPC, "No space left on device", path)
            write(path, inode, position, data)

        files.write = full
        await town.produce("orders", b"kept")
        await town.cluster.clock.sleep_ms(20_000)
        assert refused == 5
        assert (await town.fetch("orders")).high_watermark == 1

    play(scenario)
