"""The offset index of a sealed segment: lookups by page, and what they keep in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.segments.offset_index import PAGE_BYTES, OffsetIndex, first_entry_from
from odradek.log.segments.segment_format import OFFSETS
from odradek.testing.files import MemoryFileSystem

PAGE_ENTRIES = PAGE_BYTES // OFFSETS.entry_bytes
PATH = "/a.index"


def content_of(count):
    return b"".join(OFFSETS.pair.pack(10 + 3 * number, 100 + 5000 * number) for number in range(count))


def index_of(count):
    """Return an index of a file, the file system, and the file's content."""
    files, content = MemoryFileSystem(), content_of(count)
    file = files.open(PATH, create=True)
    file.append(content)
    return OffsetIndex(content, file), files, content


counts = st.one_of(
    st.integers(0, 5), st.sampled_from([PAGE_ENTRIES - 1, PAGE_ENTRIES, PAGE_ENTRIES + 1, 3 * PAGE_ENTRIES])
)


@given(counts, st.lists(st.integers(-5, 10 + 9 * PAGE_ENTRIES + 5), max_size=20), st.booleans())
def test_lookup_equals_that_in_the_whole_index(count, wanted, may_block):
    index, _, content = index_of(count)
    for relative in wanted:
        assert index.load_page(relative, may_block)
        assert index.lookup(relative) == OFFSETS.lookup(content, relative)
    assert bytes(index.read_all()) == content


@given(counts, st.lists(st.integers(0, 200 + 15_000 * PAGE_ENTRIES), max_size=20))
def test_entry_from_a_position_is_the_first_or_starts_a_later_page(count, positions):
    index, _, content = index_of(count)
    entries = OFFSETS.entries(content)
    for position in positions:
        entry = index.first_from_position(position)
        exact = first_entry_from(content, position)
        if exact is None or entry == exact:
            assert entry == exact or entry is None
        else:
            assert entry in entries[::PAGE_ENTRIES] or entry is None
            assert entry is None or entry > exact


def test_entry_from_a_position_in_the_loaded_page_is_the_first():
    index, _, content = index_of(3 * PAGE_ENTRIES)
    for number in (0, PAGE_ENTRIES, 2 * PAGE_ENTRIES):
        entry = OFFSETS.entry(content, number + 7)
        assert index.load_page(entry[0], True)
        assert index.first_from_position(entry[1] - 1) == entry


def test_cold_page_is_not_read_if_that_must_not_block():
    index, files, content = index_of(3 * PAGE_ENTRIES)
    files.evict_from_cache(PATH)
    last = OFFSETS.entry(content, 3 * PAGE_ENTRIES - 1)
    assert index.load_page(10, may_block=False), "the first page is kept"
    assert not index.load_page(last[0], may_block=False)
    assert files.blocking_reads == 0
    assert index.lookup(10) == (10, 100), "the page before stays"
    assert index.load_page(last[0], may_block=True)
    assert index.lookup(last[0]) == last


def test_copy_has_a_page_of_its_own():
    index, _, content = index_of(3 * PAGE_ENTRIES)
    copy = index.copy()
    last = OFFSETS.entry(content, 3 * PAGE_ENTRIES - 1)
    assert copy.load_page(last[0], True)
    assert copy.lookup(last[0]) == last
    assert index.lookup(10) == (10, 100)
    assert bytes(copy.read_all()) == content


@pytest.mark.parametrize(
    ("count", "kept_bytes"),
    [
        (0, 0),
        (PAGE_ENTRIES, PAGE_BYTES),
        (PAGE_ENTRIES + 1, PAGE_BYTES + 2 * 8),
        (512 * PAGE_ENTRIES, PAGE_BYTES + 512 * 8),
    ],
    ids=["empty", "one page", "two pages", "of a segment of 1 GB"],
)
def test_kept_bytes_are_bounded(count, kept_bytes):
    index, _, content = index_of(count)
    assert index.kept_bytes == kept_bytes
    if content:
        assert index.load_page(OFFSETS.entry(content, count - 1)[0], True)
        assert index.kept_bytes <= kept_bytes
