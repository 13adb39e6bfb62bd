"""Store errors of kazoo's exceptions."""

from __future__ import annotations

import pytest
from kazoo import exceptions

from odradek.store import port
from odradek.store.zookeeper.errors import AccessDenied, find_failed_op, store_error


@pytest.mark.parametrize(
    ("exception", "kind"),
    [
        (exceptions.NoNodeError(), port.NoNode),
        (exceptions.NodeExistsError(), port.NodeExists),
        (exceptions.BadVersionError(), port.BadVersion),
        (exceptions.NotEmptyError(), port.NotEmpty),
        (exceptions.NoChildrenForEphemeralsError(), port.NoChildrenForEphemerals),
        (exceptions.BadArgumentsError(), port.BadPath),
        (exceptions.NoAuthError(), AccessDenied),
        (exceptions.SessionExpiredError(), port.SessionExpired),
        (exceptions.ConnectionClosedError(), port.SessionExpired),
        (exceptions.ConnectionLoss(), port.Unavailable),
        (exceptions.OperationTimeoutError(), port.Unavailable),
        (exceptions.SessionMovedError(), port.Unavailable),
        (exceptions.ThrottledOpError(), port.Unavailable),
    ],
)
def test_exception_becomes_the_error_of_the_port(exception: Exception, kind: type[port.StoreError]) -> None:
    error = store_error(exception, "/a", 3)
    assert type(error) is kind
    assert (error.path, error.op_index) == ("/a", 3)


def test_other_exception_is_named() -> None:
    error = store_error(exceptions.QuotaExceededError(), "/a")
    assert type(error) is port.StoreError
    assert str(error) == "store error: /a: QuotaExceededError"
    assert "Broken: odd reply" in str(store_error(type("Broken", (Exception,), {})("odd reply"), "/a"))


def test_failed_operation_of_a_multi_is_the_one_with_its_own_error() -> None:
    rolled_back, skipped = exceptions.RolledBackError(), exceptions.RuntimeInconsistency()
    assert find_failed_op([rolled_back, exceptions.NoNodeError(), skipped]) == 1
    assert find_failed_op([exceptions.BadVersionError(), skipped]) == 0
    assert find_failed_op(["/a", True]) is None
    assert find_failed_op([]) is None
    assert find_failed_op([rolled_back, rolled_back]) == 0
