"""Model test: any sequence of writes, cleanings and restarts leaves the latest record of each key."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.log.log_config import CleanerConfig
from odradek.model.protocol_enums import Compression
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.files import MemoryFileSystem

from .cleaner_harness import ORDERS, CleanerHarness, Pair, compacted

KEYS = [b"a", b"b", b"c", b"d"]
TRANSACTIONAL = [1, 2]
IDEMPOTENT = 3
HOUR_MS = 3_600_000

pairs = st.lists(
    st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.binary(max_size=40))), min_size=1, max_size=4
)
codecs = st.sampled_from([Compression.NONE, Compression.NONE, Compression.LZ4, Compression.GZIP])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), pairs, codecs),
        st.tuples(st.just("numbered"), pairs, codecs),
        st.tuples(st.just("transact"), st.sampled_from(TRANSACTIONAL), pairs),
        st.tuples(st.just("end"), st.sampled_from(TRANSACTIONAL), st.booleans()),
        st.tuples(st.just("seal")),
        st.tuples(st.just("clean")),
        st.tuples(st.just("wait"), st.integers(1, 2 * HOUR_MS)),
        st.tuples(st.just("restart")),
        st.tuples(st.just("lose power")),
    ),
    max_size=30,
)


class Model:
    """All records written, and the expected result."""

    def __init__(self, harness: CleanerHarness) -> None:
        self.harness = harness
        self.written: dict[int, Pair] = {}
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.sequences = dict.fromkeys([*TRANSACTIONAL, IDEMPOTENT], 0)

    def append(self, batch: list[Pair], **options: Any) -> list[int]:
        first = self.harness.append(*batch, **options)
        offsets = list(range(first, first + len(batch)))
        self.written |= dict(zip(offsets, batch, strict=True))
        return offsets

    def append_idempotent(self, producer_id: int, batch: list[Pair], **options: Any) -> list[int]:
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] += len(batch)
        return self.append(
            batch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **options
        )

    async def run_step(self, name: str, *arguments: Any) -> None:
        match name:
            case "append":
                self.append(arguments[0], compression=arguments[1])
            case "numbered":
                self.append_idempotent(IDEMPOTENT, arguments[0], compression=arguments[1])
            case "transact":
                self.open.setdefault(arguments[0], []).extend(
                    self.append_idempotent(arguments[0], arguments[1], transactional=True)
                )
            case "end" if arguments[0] in self.open:
                offsets = self.open.pop(arguments[0])
                if arguments[1]:
                    self.harness.commit(arguments[0])
                else:
                    self.harness.abort(arguments[0])
                    self.aborted.update(offsets)
            case "seal":
                await self.harness.seal()
            case "clean":
                await self.harness.clean()
            case "wait":
                await self.harness.clock.sleep_ms(arguments[0])
            case "restart":
                await self.harness.directory.close()
                await self.harness.open()
            case "lose power":
                await self.harness.log.flush()
                self.harness.files.crash(self.harness.entropy)
                await self.harness.open()

    def check(self) -> None:
        """Check that only old records, aborted records and expired tombstones were removed."""
        left = {offset: (key, value) for offset, key, value in self.harness.records()}
        assert left.items() <= self.written.items()
        cleaned = self.harness.directory.cleaned_offsets.get(ORDERS, 0)
        latest = self.latest_below(self.harness.log.log_end_offset)
        for offset, pair in self.written.items():
            if offset in self.aborted:
                # In the last cleaned segment, aborted records are removed beyond the cleaned section.
                assert offset >= cleaned or offset not in left, "aborted records are removed"
            elif offset >= cleaned:
                assert offset in left, "dirty records are kept"
            elif offset in latest.values() and pair[1] is not None:
                assert offset in left, "the latest record of a key is kept"
        # In the cleaned section, at most the latest record of each key is left.
        assert {offset for offset in left if offset < cleaned} <= set(self.latest_below(cleaned).values())

    def latest_below(self, end_offset: int) -> dict[bytes | None, int]:
        committed = (offset for offset in self.written if offset < end_offset and offset not in self.aborted)
        return {self.written[offset][0]: offset for offset in sorted(committed)}

    def check_aborted_index(self) -> None:
        """Check that every aborted record left is covered by the transaction index."""
        left = {offset for offset, _, _ in self.harness.records()}
        aborted = self.harness.log.aborted_transactions_between(0, self.harness.log.log_end_offset)
        for offset in left & self.aborted:
            assert any(entry.first_offset <= offset < entry.last_offset for entry in aborted)


@given(steps, st.sampled_from([24 * 6, 1 << 20]), st.sampled_from([300, 1 << 20]), st.integers(0, 2**20))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cleaning_keeps_the_latest_record_of_each_key(
    new_entropy: Callable[[int], Any], steps_taken: list[Any], map_bytes: int, segment_bytes: int, seed: int
) -> None:
    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        config = compacted(segment_bytes=segment_bytes, delete_retention_ms=HOUR_MS, index_interval_bytes=64)
        files = MemoryFileSystem(clock.wall_ms)
        harness = await CleanerHarness(files, clock, new_entropy(seed), config).open()
        harness.cleaner_config = CleanerConfig(map_bytes_all=map_bytes)
        model = Model(harness)
        for step in steps_taken:
            await model.run_step(*step)
            model.check()
            model.check_aborted_index()
        assert harness.cleaner.uncleanable == {}
        await harness.seal()
        await harness.clean_all()
        model.check()
        await check_end(model)

    run_virtually(main)


async def check_end(model: Model) -> None:
    """Check that only the latest values are left after transactions end and tombstones expire."""
    harness = model.harness
    for producer_id in list(model.open):
        await model.run_step("end", producer_id, False)
    for _ in range(3):
        await harness.clock.sleep_ms(HOUR_MS)
        model.append([(b"end", b"end")])
        await harness.seal()
        await harness.clean_all()
    latest = model.latest_below(harness.log.log_end_offset)
    values = {
        (offset, *model.written[offset]) for offset in latest.values() if model.written[offset][1] is not None
    }
    assert {
        record for record in harness.records() if record[0] in latest.values() and record[2] is not None
    } == values
    assert {record[0] for record in harness.records()} == {record[0] for record in values}
    producers = [header.producer_id for header, records in harness.batches() if not records]
    assert len(producers) == len(set(producers)), "one empty batch per producer is enough"
    # An empty batch of an aborted transaction keeps its index entry.
    aborted = harness.log.aborted_transactions_between(0, harness.log.log_end_offset)
    assert {entry.producer_id for entry in aborted} <= set(producers)
