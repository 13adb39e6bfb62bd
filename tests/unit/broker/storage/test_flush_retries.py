"""A flush that failed with ENOSPC is retried without waiting for the next append."""

import errno

from odradek.model.errors import ErrorCode


def test_high_watermark_advances_once_there_is_disk_space(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"flush.messages": "1"})
        harness.cluster.files.fail_next_write(errno.ENOSPC, name_end="leader-epoch-checkpoint.tmp")
        rejected = await harness.produce("orders", b"kept")
        assert rejected.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert (await harness.fetch("orders")).high_watermark == 0
        await harness.cluster.clock.sleep_ms(2_000)
        assert (await harness.fetch("orders")).high_watermark == 1
        assert await harness.values("orders") == [b"kept"]

    run_scenario(scenario)


def test_flush_is_retried_while_the_disk_is_full(run_scenario):
    async def scenario(harness):
        await harness.create("orders", settings={"flush.messages": "1"})
        files = harness.cluster.files
        write, rejected = files.write, 0

        def full(path, inode, position, data):
            nonlocal rejected
            if path.endswith("leader-epoch-checkpoint.tmp") and rejected < 5:
                rejected += 1
                raise OSError(errno.ENOSPC, "No space left on device", path)
            write(path, inode, position, data)

        files.write = full
        await harness.produce("orders", b"kept")
        await harness.cluster.clock.sleep_ms(20_000)
        assert rejected == 5
        assert (await harness.fetch("orders")).high_watermark == 1

    run_scenario(scenario)
