"""A start that is refused leaves the data directories as they were: same names, same bytes."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.broker import IS_FOREIGN, Broker

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="the files and the words are ours")

META = "meta.properties"
STORE = "odradek-store.sqlite"


def _content(root: Path) -> dict[str, bytes | None]:
    """Every name under a directory, and the bytes of each file."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def _refusal(broker: Broker, watched: Path) -> str:
    """Run a broker that must not start, and check that it changed nothing under ``watched``."""
    before = _content(watched)
    status, words = broker.run_to_exit()
    assert status == 1, words
    assert "Traceback" not in words
    assert _content(watched) == before
    return words


@pytest.fixture
def used(tmp_path: Path) -> Broker:
    """A broker that has been started and stopped once."""
    broker = Broker(tmp_path / "home").start()
    broker.stop()
    return broker


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _meta_line(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{key}="))


def test_data_of_another_cluster_is_refused(used: Broker) -> None:
    data = used.directory / "data"
    cluster = _meta_line((data / META).read_text(), "cluster.id")
    _edit(data / META, cluster, "cluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw")
    assert "the data belongs to cluster r2ZBpvlJSAOxRG6Ck0D8Zw" in _refusal(used, data)


@pytest.mark.parametrize(
    "content",
    [
        "version=0\nbroker.id=0\ncluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw\n",
        "version=1\nnode.id=0\ncluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw\n",
        "version=0\nbroker.id=seven\n",
        "\\=\n",
    ],
    ids=["another cluster's", "a KRaft broker's", "no broker id", "not properties"],
)
def test_foreign_meta_properties_without_a_store_are_refused(tmp_path: Path, content: str) -> None:
    broker = Broker(tmp_path / "home")
    data = broker.directory / "data"
    data.mkdir(parents=True)
    (data / META).write_text(content)
    assert META in _refusal(broker, broker.directory)


def test_data_without_its_store_is_refused(used: Broker) -> None:
    data = used.directory / "data"
    (data / STORE).unlink()
    assert "store" in _refusal(used, data)


def test_a_store_that_is_not_one_is_refused(used: Broker) -> None:
    data = used.directory / "data"
    (data / STORE).write_bytes(b"not a database at all " * 500)
    assert "damaged or not a store" in _refusal(used, data)


def _other_broker_id(settings: dict[str, str], tmp_path: Path) -> str:
    settings["broker.id"] = "77"
    return "broker.id"


def _disagreeing_directories(settings: dict[str, str], tmp_path: Path) -> str:
    other = tmp_path / "home" / "other"
    other.mkdir()
    (other / META).write_text("version=0\nbroker.id=5\n")
    settings["log.dirs"] = f"{tmp_path}/home/data,{other}"
    return "disagree"


def _directory_twice(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/data,{tmp_path}/home/new,{tmp_path}/home/new"
    return "twice"


def _first_directory_is_a_file(settings: dict[str, str], tmp_path: Path) -> str:
    (tmp_path / "home" / "file").write_text("not a directory")
    settings["log.dirs"] = f"{tmp_path}/home/file,{tmp_path}/home/new"
    return "the first of log.dirs"


def _zookeeper(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["zookeeper.connect"] = "127.0.0.1:1"
    return "zookeeper.connect"


def _protocol(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["listeners"] = "SSL://127.0.0.1:9092"
    return "listeners"


def _bad_value(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["num.partitions"] = "many"
    return "num.partitions"


@pytest.mark.parametrize(
    "spoil",
    [
        _other_broker_id,
        _disagreeing_directories,
        _directory_twice,
        _first_directory_is_a_file,
        _zookeeper,
        _protocol,
        _bad_value,
    ],
)
def test_settings_that_cannot_hold_are_refused(
    used: Broker, tmp_path: Path, spoil: Callable[[dict[str, str], Path], str]
) -> None:
    word = spoil(used.settings, tmp_path)
    assert word in _refusal(used, used.directory)


@pytest.mark.parametrize("is_new", [True, False], ids=["new data", "used data"])
def test_an_address_in_use_is_refused(used: Broker, is_new: bool) -> None:
    if is_new:
        shutil.rmtree(used.directory / "data")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", used.port))
        taken.listen()
        assert "cannot listen on" in _refusal(used, used.directory)


def test_a_directory_that_another_broker_holds_is_refused_and_no_other_one_is_made(
    used: Broker, tmp_path: Path
) -> None:
    held = tmp_path / "held"
    used.settings["log.dirs"] = f"{used.directory / 'data'},{held}"
    second = Broker(tmp_path / "second", {"log.dirs": f"{tmp_path}/second/new,{held}"})
    second.directory.mkdir()
    used.start()
    try:
        (held / META).unlink()  # so that nothing but the lock tells whose it is
        assert "in use by another broker" in _refusal(second, second.directory)
    finally:
        used.stop()
