"""meta.properties: encoding, unknown keys, disagreeing directories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.model.errors import StorageError
from odradek.store.meta_properties import (
    MetaProperties,
    agree,
    check_cluster_id,
    decode,
    encode,
    read_all,
    write_all,
)
from odradek.testing.files import MemoryFileSystem

# Written by Kafka 3.9.1's PropertiesUtils.
GOLDEN = (
    "#\n#Sun Nov 15 08:18:33 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=r2ZB\\=pvl\\:JSA\\#Oé x\n"
).encode()
GOLDEN_MS = 1_794_730_713_000


def files_with(**contents: bytes) -> MemoryFileSystem:
    files = MemoryFileSystem()
    for name in ("a", "b"):
        files.make_directories(f"/data/{name}")
    for name, content in contents.items():
        files.write_whole(f"/data/{name}/meta.properties", content)
    return files


def test_meta_properties_are_written_as_kafka_does() -> None:
    meta = MetaProperties(1, "r2ZB=pvl:JSA#Oé x")
    assert encode(meta, GOLDEN_MS) == GOLDEN
    assert decode("/f", GOLDEN) == meta


def test_hand_written_meta_properties_are_read() -> None:
    text = b"  version : 0\r\n! note\n\nbroker.id 7\ncluster.id=a\\u0041\\tb\n"
    assert decode("/f", text) == MetaProperties(7, "aA\tb")


def test_unknown_keys_are_kept() -> None:
    meta = decode("/f", b"version=0\nbroker.id=1\ndirectory.id=3Q0bVG5OTqSGsa-9nrsmOg\n")
    assert meta.others == {"directory.id": "3Q0bVG5OTqSGsa-9nrsmOg"}
    assert b"directory.id=3Q0bVG5OTqSGsa-9nrsmOg\n" in encode(meta, 0)


@given(
    st.none() | st.integers(0, 2**31 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"])),
)
def test_meta_properties_round_trip(broker_id, cluster_id) -> None:
    meta = MetaProperties(broker_id, cluster_id)
    assert decode("/f", encode(meta, 0)) == meta


@pytest.mark.parametrize(
    "text", [b"", b"version=1\nnode.id=1\n", b"version=0\nbroker.id=x\n", b"version=0\nbroker.id=-3", b"\xff"]
)
def test_invalid_meta_properties_are_rejected_with_path(text: bytes) -> None:
    with pytest.raises(StorageError, match="/data/meta"):
        decode("/data/meta.properties", text)


def test_each_directory_is_written_once() -> None:
    files = files_with(a=b"version=0\nbroker.id=1\ncluster.id=c\nx=y\n")
    dirs = ["/data/a", "/data/b"]
    assert write_all(files, dirs, 1, "c", 0) == ["/data/b/meta.properties"]
    assert write_all(files, dirs, 1, "c", 5) == []
    assert agree(read_all(files, dirs)) == MetaProperties(1, "c")
    assert read_all(files, dirs)["/data/a/meta.properties"].others == {"x": "y"}


def test_missing_broker_id_is_added() -> None:
    files = files_with(a=b"version=0\ncluster.id=c\n")
    assert write_all(files, ["/data/a"], 4, "c", 0) == ["/data/a/meta.properties"]
    assert read_all(files, ["/data/a"])["/data/a/meta.properties"].broker_id == 4


def test_oversized_file_is_not_read() -> None:
    files = files_with(a=b"#" * 100_000)
    with pytest.raises(StorageError, match="must be at most"):
        read_all(files, ["/data/a"])


@pytest.mark.parametrize(
    ("text", "said"),
    [(b"version=0\nbroker.id=2\ncluster.id=c\n", "broker.id"), (b"version=0\ncluster.id=d\n", "cluster.id")],
)
def test_disagreeing_directories_are_rejected(text: bytes, said: str) -> None:
    files = files_with(a=b"version=0\nbroker.id=1\ncluster.id=c\n", b=text)
    with pytest.raises(StorageError, match=rf"{said}.*/data/a/meta.*/data/b/meta"):
        agree(read_all(files, ["/data/a", "/data/b"]))


def test_no_files_give_no_ids() -> None:
    assert agree({}) == MetaProperties(None, None)


def test_data_of_another_cluster_is_rejected() -> None:
    by_path = {"/data/a/meta.properties": MetaProperties(1, "theirs")}
    with pytest.raises(StorageError, match=r"/data/a/meta.properties.*theirs.*ours"):
        check_cluster_id(by_path, "ours")
    check_cluster_id(by_path, "theirs")
    check_cluster_id({"/f": MetaProperties(1, None)}, "ours")
