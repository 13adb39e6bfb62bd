"""Parsing of ``zookeeper.connect``."""

from __future__ import annotations

import pytest

from odradek.store.zookeeper.connect_string import ConnectString, parse_connect_string


@pytest.mark.parametrize(
    ("text", "servers", "chroot"),
    [
        ("zk:2182", ("zk:2182",), ""),
        ("zk", ("zk:2181",), ""),
        ("zk/", ("zk:2181",), ""),
        (" a:1, b:2 ,c/kafka ", ("a:1", "b:2", "c:2181"), "/kafka"),
        ("10.0.0.1:2181,10.0.0.2:2181/prod/kafka", ("10.0.0.1:2181", "10.0.0.2:2181"), "/prod/kafka"),
        ("[::1]:2182,[fe80::1]/k", ("[::1]:2182", "[fe80::1]:2181"), "/k"),
    ],
)
def test_servers_and_chroot_are_parsed(text: str, servers: tuple[str, ...], chroot: str) -> None:
    assert parse_connect_string(text) == ConnectString(servers, chroot)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "server must be host:port"),
        ("/kafka", "server must be host:port"),
        ("a:1,,b:1", "server must be host:port"),
        (":2181", "server must be host:port"),
        ("::1:2181", "IPv6 address in brackets"),
        ("zk:port", "port must be between 1 and 65535, got 'zk:port'"),
        ("zk:0", "port must be between"),
        ("zk:65536", "port must be between"),
        ("zk:2181/a//b", "path /a//b: must have no empty"),
        ("zk:2181/a/", "path /a/: must have no empty"),
        ("zk:2181/../b", "path /../b: must have no"),
    ],
)
def test_invalid_string_is_rejected_with_the_reason(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_connect_string(text)


def test_text_form_names_servers_and_chroot() -> None:
    connect = parse_connect_string("a,b:2/kafka")
    assert (str(connect), connect.hosts) == ("a:2181,b:2/kafka", "a:2181,b:2")
