"""The node tree: staged writes, path validation."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.store.embedded.database import MEMORY, Database
from odradek.store.embedded.node_tree import DATA_BYTES_MAX, NodeTree, StagedWrites
from odradek.store.layout.node_paths import check_path, parent_of
from odradek.store.port import (
    BadPath,
    CheckOp,
    CreateOp,
    DeleteOp,
    NodeExists,
    NoNode,
    SetDataOp,
    StoreError,
)

paths = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(lambda parts: "/" + "/".join(parts))
versions = st.sampled_from([-1, -1, 0, 1, 2])
data = st.binary(max_size=3)
ops = st.one_of(
    st.builds(CreateOp, paths, data, st.booleans(), st.booleans()),
    st.builds(CreateOp, paths, data),
    st.builds(SetDataOp, paths, data, versions),
    st.builds(DeleteOp, paths, versions),
    st.builds(CheckOp, paths, versions),
)
writes = st.lists(
    st.tuples(st.integers(1, 3), st.lists(ops, min_size=1, max_size=4) | st.none()), max_size=25
)


def stage(staged: StagedWrites, write) -> bool:
    session, steps = write
    if steps is None:
        staged.end_session(session, 5)
        return True
    try:
        staged.write(steps, session, 5, is_multi=True)
    except StoreError:
        return False
    return True


def shape(tree: NodeTree) -> dict[str, tuple[object, list[str]]]:
    return {path: (node, sorted(tree.names_under(path))) for path, node in tree.nodes.items()}


@given(writes)
def test_staged_writes_equal_single_writes(steps) -> None:
    combined, single = NodeTree(), NodeTree()
    staged = StagedWrites(combined)
    combined_results = [stage(staged, write) for write in steps]
    single_results = []
    for write in steps:
        staged_write = StagedWrites(single)
        single_results.append(stage(staged_write, write))
        single.apply(staged_write)
    combined.apply(staged)
    assert combined_results == single_results
    assert shape(combined) == shape(single)
    assert combined.ephemerals == single.ephemerals
    assert combined.zxid == single.zxid


@given(writes)
def test_tree_is_consistent_after_any_writes(steps) -> None:
    tree = NodeTree()
    for write in steps:
        staged = StagedWrites(tree)
        before = shape(tree)
        done = stage(staged, write)
        assert shape(tree) == before
        assert done or not staged.after
        tree.apply(staged)
    owned = {path for owner in tree.ephemerals.values() for path in owner}
    for path, (_, stat) in tree.nodes.items():
        names = tree.names_under(path)
        assert stat.num_children == len(names)
        assert (stat.cversion + stat.num_children) % 2 == 0
        assert all(("" if path == "/" else path) + "/" + name in tree.nodes for name in names)
        assert path == "/" or parent_of(path) in tree.nodes
        assert (stat.ephemeral_owner != 0) == (path in owned)
        assert stat.ephemeral_owner == 0 or not names
        assert stat.czxid <= stat.mzxid <= tree.zxid
        assert stat.pzxid <= tree.zxid


@given(writes)
def test_written_tree_is_loaded(steps) -> None:
    database = Database(MEMORY)
    tree = NodeTree()
    for write in steps:
        staged = StagedWrites(tree)
        stage(staged, write)
        database.write(staged.after, staged.zxid)
        tree.apply(staged)
    loaded = database.load()
    database.close()
    assert shape(loaded) == shape(tree)
    assert loaded.ephemerals == tree.ephemerals
    assert loaded.zxid == tree.zxid


def test_ended_session_loses_its_staged_ephemerals() -> None:
    tree = NodeTree()
    staged = StagedWrites(tree)
    staged.write([CreateOp("/e", b"", True)], 7, 5, is_multi=False)
    staged.end_session(7, 5)
    tree.apply(staged)
    assert set(tree.nodes) == {"/"}
    assert tree.ephemerals == {}


def test_staged_write_sees_earlier_staged_writes() -> None:
    staged = StagedWrites(NodeTree())
    staged.write([CreateOp("/a")], 1, 5, is_multi=False)
    with pytest.raises(NodeExists):
        staged.write([CreateOp("/a")], 1, 5, is_multi=False)
    staged.write([DeleteOp("/a")], 1, 5, is_multi=False)
    with pytest.raises(NoNode):
        staged.write([SetDataOp("/a", b"")], 1, 5, is_multi=False)


def test_root_can_only_be_written() -> None:
    staged = StagedWrites(NodeTree())
    with pytest.raises(NodeExists):
        staged.write([CreateOp("/")], 1, 5, is_multi=False)
    with pytest.raises(BadPath):
        staged.write([DeleteOp("/")], 1, 5, is_multi=False)
    staged.write([SetDataOp("/", b"x")], 1, 5, is_multi=False)
    assert staged.node("/")[0] == b"x"  # type: ignore[index]


def test_data_above_zookeeper_limit_is_rejected() -> None:
    staged = StagedWrites(NodeTree())
    staged.write([CreateOp("/a", bytes(DATA_BYTES_MAX))], 1, 5, is_multi=False)
    with pytest.raises(StoreError, match="must be at most"):
        staged.write([SetDataOp("/a", bytes(DATA_BYTES_MAX + 1))], 1, 5, is_multi=False)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a/./b", "/..", "/\x7f", "/" + "a" * 5000])
def test_invalid_paths_are_rejected(path: str) -> None:
    with pytest.raises(BadPath):
        check_path(path)


@pytest.mark.parametrize("path", ["/", "/a", "/a.b/..c/.d", "/a b", "/é", "/<default>"])
def test_valid_paths_are_accepted(path: str) -> None:
    check_path(path)
