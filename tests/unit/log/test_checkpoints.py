"""Checkpoint and metadata files of a log directory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.log.checkpoints import (
    encode_clean_shutdown,
    encode_offsets,
    encode_partition_metadata,
    read_offsets,
    read_partition_metadata,
)
from odradek.model.errors import StorageError
from odradek.model.ids import TopicPartition
from odradek.testing.files import MemoryFileSystem

topics = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789._-", min_size=1, max_size=20)


@given(
    st.dictionaries(
        st.builds(TopicPartition, topics, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=20
    )
)
def test_offset_checkpoint_round_trip(offsets: dict[TopicPartition, int]) -> None:
    files = MemoryFileSystem()
    files.write_whole("/checkpoint", encode_offsets(offsets))
    assert read_offsets(files, "/checkpoint") == offsets


def test_offset_checkpoint_format_matches_kafka() -> None:
    offsets = {TopicPartition("orders", 0): 1042, TopicPartition("orders", 1): 77}
    assert encode_offsets(offsets) == b"0\n2\norders 0 1042\norders 1 77\n"
    assert encode_offsets({}) == b"0\n0\n"


@pytest.mark.parametrize("content", [b"", b"0\n", b"0\n0\n"])
def test_checkpoint_without_entries_is_empty(content: bytes) -> None:
    files = MemoryFileSystem()
    assert read_offsets(files, "/none") == {}
    files.write_whole("/checkpoint", content)
    assert read_offsets(files, "/checkpoint") == {}


@pytest.mark.parametrize(
    "content",
    [
        b"1\n0\n",
        b"x\n0\n",
        b"0\nx\n",
        b"0\n-1\n",
        b"0\n1\n",
        b"0\n0\norders 0 1\n",
        b"0\n2\norders 0 1\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders x 1\n",
        b"0\n1\norders 0 1 2\n",
        b"\xff\xfe",
    ],
)
def test_malformed_checkpoint_is_rejected_with_its_path(content: bytes) -> None:
    files = MemoryFileSystem()
    files.write_whole("/checkpoint", content)
    with pytest.raises(StorageError, match="/checkpoint"):
        read_offsets(files, "/checkpoint")


@given(st.binary(min_size=16, max_size=16))
def test_partition_metadata_round_trip(topic_id: bytes) -> None:
    files = MemoryFileSystem()
    files.write_whole("/partition.metadata", encode_partition_metadata(topic_id))
    assert read_partition_metadata(files, "/partition.metadata") == topic_id


def test_partition_metadata_format_matches_kafka() -> None:
    topic_id = bytes.fromhex("fb1c2d3e4f5061728394a5b6c7d8e9ff")
    assert encode_partition_metadata(topic_id) == b"version: 0\ntopic_id: -xwtPk9QYXKDlKW2x9jp_w"
    assert read_partition_metadata(MemoryFileSystem(), "/none") is None


def test_empty_partition_metadata_has_no_topic_id() -> None:
    files = MemoryFileSystem()
    files.write_whole("/partition.metadata", b"\n")
    assert read_partition_metadata(files, "/partition.metadata") is None


@pytest.mark.parametrize(
    "content",
    [b"version: 1\ntopic_id: -xwtPk9QYXKDlKW2x9jp_w", b"version: 0\n", b"version: 0\ntopic_id: \xff"],
)
def test_malformed_partition_metadata_is_rejected_with_its_path(content: bytes) -> None:
    files = MemoryFileSystem()
    files.write_whole("/partition.metadata", content)
    with pytest.raises(StorageError, match=r"/partition\.metadata"):
        read_partition_metadata(files, "/partition.metadata")


def test_clean_shutdown_file_format_matches_kafka() -> None:
    assert encode_clean_shutdown() == b'{"version":0,"brokerEpoch":-1}'
    assert encode_clean_shutdown(42) == b'{"version":0,"brokerEpoch":42}'
