"""Whatever is written, in whatever rounds it is compacted: what is left is what a simple model says."""

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odradek.log.log_config import CleanerConfig
from odradek.model.protocol_enums import Compression
from odradek.testing.clock import VirtualClock, run_virtually
from odradek.testing.files import MemoryFileSystem

from .cleaner_fixture import ORDERS, Pair, Yard, compacted

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
    """All that was ever written, and what became of it."""

    def __init__(self, yard: Yard) -> None:
        self.yard = yard
        self.written: dict[int, Pair] = {}
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.sequences = dict.fromkeys([*TRANSACTIONAL, IDEMPOTENT], 0)

    def append(self, batch: list[Pair], **how: Any) -> list[int]:
        first = self.yard.append(*batch, **how)
        offsets = list(range(first, first + len(batch)))
        self.written |= dict(zip(offsets, batch, strict=True))
        return offsets

    def numbered(self, producer_id: int, batch: list[Pair], **how: Any) -> list[int]:
        sequence = self.sequences[producer_id]
        self.sequences[producer_id] += len(batch)
        return self.append(batch, producer_id=producer_id, producer_epoch=0, base_sequence=sequence, **how)

    async def take(self, name: str, *given: Any) -> None:
        match name:
            case "append":
                self.append(given[0], compression=given[1])
            case "numbered":
                self.numbered(IDEMPOTENT, given[0], compression=given[1])
            case "transact":
                self.open.setdefault(given[0], []).extend(
                    self.numbered(given[0], given[1], transactional=True)
                )
            case "end" if given[0] in self.open:
                offsets = self.open.pop(given[0])
                if given[1]:
                    self.yard.commit(given[0])
                else:
                    self.yard.abort(given[0])
                    self.aborted.update(offsets)
            case "seal":
                await self.yard.seal()
            case "clean":
                await self.yard.clean()
            case "wait":
                await self.yard.clock.sleep_ms(given[0])
            case "restart":
                await self.yard.directory.close()
                await self.yard.open()
            case "lose power":
                await self.yard.log.flush()
                self.yard.files.crash(self.yard.entropy)
                await self.yard.open()

    def check(self) -> None:
        """Nothing but old copies, aborted records and expired tombstones is gone."""
        left = {offset: (key, value) for offset, key, value in self.yard.records()}
        assert left.items() <= self.written.items()
        cleaned = self.yard.directory.cleaned_offsets.get(ORDERS, 0)
        newest = self.newest_below(self.yard.log.log_end_offset)
        for offset, pair in self.written.items():
            if offset in self.aborted:
                # Of the segment that a round ended in, aborted records go beyond where it ended.
                assert offset >= cleaned or offset not in left, "what was aborted is gone"
            elif offset >= cleaned:
                assert offset in left, "what was not compacted is there"
            elif offset in newest.values() and pair[1] is not None:
                assert offset in left, "the newest of a key is there"
        # Of what was compacted at most the newest of each key is left.
        assert {offset for offset in left if offset < cleaned} <= set(self.newest_below(cleaned).values())

    def newest_below(self, end_offset: int) -> dict[bytes | None, int]:
        committed = (one for one in self.written if one < end_offset and one not in self.aborted)
        return {self.written[offset][0]: offset for offset in sorted(committed)}

    def check_readers(self) -> None:
        """Whoever reads committed records is told of every aborted one that it would meet."""
        left = {offset for offset, _, _ in self.yard.records()}
        aborted = self.yard.log.aborted_transactions_between(0, self.yard.log.log_end_offset)
        for offset in left & self.aborted:
            assert any(one.first_offset <= offset < one.last_offset for one in aborted)


@given(steps, st.sampled_from([24 * 6, 1 << 20]), st.sampled_from([300, 1 << 20]), st.integers(0, 2**20))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_left_is_the_newest_of_each_key(
    new_chance: Callable[[int], Any], given_steps: list[Any], map_bytes: int, segment_bytes: int, seed: int
) -> None:
    async def main() -> None:
        clock = VirtualClock(asyncio.get_running_loop())
        config = compacted(segment_bytes=segment_bytes, delete_retention_ms=HOUR_MS, index_interval_bytes=64)
        files = MemoryFileSystem(clock.wall_ms)
        yard = await Yard(files, clock, new_chance(seed), config).open()
        yard.cleaner_config = CleanerConfig(map_bytes_all=map_bytes)
        model = Model(yard)
        for step in given_steps:
            await model.take(*step)
            model.check()
            model.check_readers()
        assert yard.cleaner.uncleanable == {}
        await yard.seal()
        await yard.clean_all()
        model.check()
        await check_end(model)

    run_virtually(main)


async def check_end(model: Model) -> None:
    """Without open transactions, once tombstones are too old, only the newest value of each key is left."""
    yard = model.yard
    for producer_id in list(model.open):
        await model.take("end", producer_id, False)
    for _ in range(3):
        await yard.clock.sleep_ms(HOUR_MS)
        model.append([(b"end", b"end")])
        await yard.seal()
        await yard.clean_all()
    newest = model.newest_below(yard.log.log_end_offset)
    values = {
        (offset, *model.written[offset]) for offset in newest.values() if model.written[offset][1] is not None
    }
    assert {one for one in yard.records() if one[0] in newest.values() and one[2] is not None} == values
    assert {one[0] for one in yard.records()} == {one[0] for one in values}
    producers = [header.producer_id for header, records in yard.batches() if not records]
    assert len(producers) == len(set(producers)), "a producer needs one batch to be known by"
    # While the batch that a producer is known by is of an aborted transaction, that transaction is known too.
    aborted = yard.log.aborted_transactions_between(0, yard.log.log_end_offset)
    assert {one.producer_id for one in aborted} <= set(producers)
