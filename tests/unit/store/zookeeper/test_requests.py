"""Requests of operations, chroots, and the division of watches into requests."""

from __future__ import annotations

import pytest

from odradek.store.port import BadPath, CheckOp, CreateOp, DeleteOp, NodeExists, SetDataOp, StoreError
from odradek.store.zookeeper.requests import (
    REQUEST_BYTES_MAX,
    Chroot,
    check_size,
    encode_op,
    split_watches,
)
from odradek.store.zookeeper.watches import ArmedPaths

ROOT, KAFKA = Chroot(""), Chroot("/kafka")


def test_chroot_is_added_and_removed() -> None:
    for chroot, path, server_path in (
        (ROOT, "/", "/"),
        (ROOT, "/a", "/a"),
        (KAFKA, "/", "/kafka"),
        (KAFKA, "/a/b", "/kafka/a/b"),
        (KAFKA, "/kafka", "/kafka/kafka"),
    ):
        assert chroot.add(path) == server_path
        assert chroot.remove(server_path) == path


def test_operations_are_encoded_below_the_chroot() -> None:
    create = encode_op(CreateOp("/a/", b"1", ephemeral=True, sequence=True), KAFKA, sets_acl=False)
    assert (create.path, create.data, create.flags) == ("/kafka/a/", b"1", 3)
    assert encode_op(CreateOp("/a", ephemeral=True), ROOT, sets_acl=False).flags == 1
    assert encode_op(SetDataOp("/a", b"2", 7), KAFKA, sets_acl=False)[:] == ("/kafka/a", b"2", 7)
    assert encode_op(DeleteOp("/a", 7), KAFKA, sets_acl=False)[:] == ("/kafka/a", 7)
    assert encode_op(CheckOp("/a", 7), KAFKA, sets_acl=False)[:] == ("/kafka/a", 7)


def test_node_without_data_is_created_without_data_not_with_empty_data() -> None:
    """Kafka's controller parses the empty data of ``/latest_producer_id_block``, and allocates no ids."""
    create = encode_op(CreateOp("/latest_producer_id_block"), ROOT, sets_acl=False)
    assert create.data is None
    assert create.serialize()[4 + len(create.path) :][:4] == b"\xff\xff\xff\xff"


def test_root_is_neither_created_nor_deleted() -> None:
    with pytest.raises(NodeExists):
        encode_op(CreateOp("/"), KAFKA, sets_acl=False)
    with pytest.raises(BadPath):
        encode_op(DeleteOp("/"), KAFKA, sets_acl=False)
    with pytest.raises(BadPath):
        encode_op(SetDataOp("/a/", b""), KAFKA, sets_acl=False)


def test_write_above_the_limit_of_the_server_is_rejected() -> None:
    check_size([CreateOp("/a", bytes(1_000_000))], KAFKA)
    with pytest.raises(StoreError, match=rf"at most {REQUEST_BYTES_MAX} bytes"):
        check_size([CreateOp("/a", bytes(REQUEST_BYTES_MAX))], KAFKA)
    with pytest.raises(StoreError, match="at most"):
        check_size([SetDataOp(f"/{number}", bytes(1000)) for number in range(1000)], KAFKA)
    check_size([DeleteOp(f"/{number}") for number in range(1000)], KAFKA)


def test_watches_are_divided_into_requests() -> None:
    assert list(split_watches(ArmedPaths([], [], []), KAFKA)) == []
    armed = ArmedPaths(
        [f"/data/{number:090d}" for number in range(2000)],
        ["/missing"],
        [f"/parents/{number:090d}" for number in range(2000)],
    )
    portions = list(split_watches(armed, KAFKA))
    assert len(portions) > 2
    for kind in range(3):
        paths = [KAFKA.remove(path) for portion in portions for path in portion[kind]]
        assert paths == armed[kind]
    for portion in portions:
        assert sum(len(path) for paths in portion for path in paths) < 150_000
