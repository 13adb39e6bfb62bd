"""A failed startup leaves the log directories unchanged: same names, same bytes."""

from __future__ import annotations

import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.broker import IS_FOREIGN, Broker

pytestmark = pytest.mark.skipif(IS_FOREIGN, reason="files and messages are specific to odradek")

META = "meta.properties"
STORE = "odradek-store.sqlite"


def _content(root: Path) -> dict[str, bytes | None]:
    """Return every name under a directory with the content of each file."""
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def _startup_error(broker: Broker, watched: Path) -> str:
    """Run a broker that must fail to start and change nothing under ``watched``; return its output."""
    before = _content(watched)
    status, output = broker.run_to_exit()
    assert status == 1, output
    assert "Traceback" not in output
    assert _content(watched) == before
    return output


@pytest.fixture
def stopped_broker(tmp_path: Path) -> Broker:
    """A broker that was started and stopped once."""
    broker = Broker(tmp_path / "home").start()
    broker.stop()
    return broker


def _edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _meta_line(text: str, key: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(f"{key}="))


def test_data_of_another_cluster_prevents_startup(stopped_broker: Broker) -> None:
    data = stopped_broker.directory / "data"
    cluster = _meta_line((data / META).read_text(), "cluster.id")
    _edit(data / META, cluster, "cluster.id=r2ZBpvlJSAOxRG6Ck0D8Zw")
    assert "the data belongs to cluster r2ZBpvlJSAOxRG6Ck0D8Zw" in _startup_error(stopped_broker, data)


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
def test_foreign_meta_properties_without_a_store_prevent_startup(tmp_path: Path, content: str) -> None:
    broker = Broker(tmp_path / "home")
    data = broker.directory / "data"
    data.mkdir(parents=True)
    (data / META).write_text(content)
    assert META in _startup_error(broker, broker.directory)


def test_data_without_a_store_prevents_startup(stopped_broker: Broker) -> None:
    data = stopped_broker.directory / "data"
    (data / STORE).unlink()
    assert "store" in _startup_error(stopped_broker, data)


def test_corrupt_store_prevents_startup(stopped_broker: Broker) -> None:
    data = stopped_broker.directory / "data"
    (data / STORE).write_bytes(b"not a database at all " * 500)
    assert "corrupt or not a store" in _startup_error(stopped_broker, data)


def _other_broker_id(settings: dict[str, str], tmp_path: Path) -> str:
    settings["broker.id"] = "77"
    return "broker.id"


def _disagreeing_directories(settings: dict[str, str], tmp_path: Path) -> str:
    other = tmp_path / "home" / "other"
    other.mkdir()
    (other / META).write_text("version=0\nbroker.id=5\n")
    settings["log.dirs"] = f"{tmp_path}/home/data,{other}"
    return "must be the same in all log.dirs"


def _directory_twice(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/data,{tmp_path}/home/new,{tmp_path}/home/new"
    return "twice"


def _first_directory_is_a_file(settings: dict[str, str], tmp_path: Path) -> str:
    (tmp_path / "home" / "file").write_text("not a directory")
    settings["log.dirs"] = f"{tmp_path}/home/file,{tmp_path}/home/new"
    return "the first of log.dirs"


def _zookeeper(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["zookeeper.ssl.crl.enable"] = "true"
    return "zookeeper.ssl.crl.enable"


def _protocol(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["listeners"] = "SSL://127.0.0.1:9092"
    return "listeners"


def _bad_value(settings: dict[str, str], tmp_path: Path) -> str:
    settings["log.dirs"] = f"{tmp_path}/home/new"
    settings["num.partitions"] = "many"
    return "num.partitions"


@pytest.mark.parametrize(
    "break_settings",
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
def test_invalid_settings_prevent_startup(
    stopped_broker: Broker, tmp_path: Path, break_settings: Callable[[dict[str, str], Path], str]
) -> None:
    expected = break_settings(stopped_broker.settings, tmp_path)
    assert expected in _startup_error(stopped_broker, stopped_broker.directory)


@pytest.mark.parametrize("is_new", [True, False], ids=["new data", "used data"])
def test_address_in_use_prevents_startup(stopped_broker: Broker, is_new: bool) -> None:
    if is_new:
        shutil.rmtree(stopped_broker.directory / "data")
    with socket.socket() as occupied:
        occupied.bind(("127.0.0.1", stopped_broker.port))
        occupied.listen()
        assert "cannot listen on" in _startup_error(stopped_broker, stopped_broker.directory)


def test_locked_log_directory_prevents_startup_and_creates_no_other(
    stopped_broker: Broker, tmp_path: Path
) -> None:
    locked = tmp_path / "held"
    stopped_broker.settings["log.dirs"] = f"{stopped_broker.directory / 'data'},{locked}"
    second = Broker(tmp_path / "second", {"log.dirs": f"{tmp_path}/second/new,{locked}"})
    second.directory.mkdir()
    stopped_broker.start()
    try:
        (locked / META).unlink()  # only the lock is left to detect the other broker
        assert "in use by another broker" in _startup_error(second, second.directory)
    finally:
        stopped_broker.stop()
