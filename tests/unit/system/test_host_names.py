"""Permanent and temporary resolver failures."""

from __future__ import annotations

import socket

import pytest

from odradek.ports.network import UnknownHost
from odradek.system.host_names import resolution_error


@pytest.mark.parametrize("number", [socket.EAI_NONAME, socket.EAI_NODATA])
def test_unknown_host_name_is_final(number: int) -> None:
    error = resolution_error("nowhere", socket.gaierror(number, "Name or service not known"))
    assert isinstance(error, UnknownHost)
    assert str(error) == "host 'nowhere' does not resolve: Name or service not known"


@pytest.mark.parametrize("number", [socket.EAI_AGAIN, socket.EAI_FAIL, socket.EAI_MEMORY])
def test_temporary_resolver_failure_is_not_final(number: int) -> None:
    error = resolution_error("somewhere", socket.gaierror(number, "Temporary failure in name resolution"))
    assert not isinstance(error, UnknownHost)
    assert str(error) == "host 'somewhere' could not be resolved: Temporary failure in name resolution"


def test_invalid_host_name_is_final() -> None:
    assert isinstance(resolution_error("a..b", UnicodeError("label empty or too long")), UnknownHost)
