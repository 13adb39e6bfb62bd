"""Store errors of kazoo's exceptions.

An operation whose result is unknown is ``Unavailable``: the connection broke while it was in flight, or the
server did not process it in time. ``SessionExpired`` is only for a session that has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kazoo import exceptions

from odradek.store.port import (
    BadPath,
    BadVersion,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionExpired,
    StoreError,
    Unavailable,
)


class AccessDenied(StoreError):
    what = "access is denied by the node's ACL"


class Unsupported(StoreError):
    what = "the server does not know this request"


_BY_EXCEPTION: Final[dict[type[Exception], type[StoreError]]] = {
    exceptions.NoNodeError: NoNode,
    exceptions.NodeExistsError: NodeExists,
    exceptions.BadVersionError: BadVersion,
    exceptions.NotEmptyError: NotEmpty,
    exceptions.NoChildrenForEphemeralsError: NoChildrenForEphemerals,
    exceptions.BadArgumentsError: BadPath,
    exceptions.NoAuthError: AccessDenied,
    exceptions.UnimplementedError: Unsupported,
    exceptions.AuthFailedError: SessionExpired,
    exceptions.SessionExpiredError: SessionExpired,
    exceptions.ConnectionClosedError: SessionExpired,
    exceptions.ConnectionLoss: Unavailable,
    exceptions.OperationTimeoutError: Unavailable,
    exceptions.RequestTimeoutError: Unavailable,
    exceptions.SessionMovedError: Unavailable,
    exceptions.ThrottledOpError: Unavailable,
    exceptions.NotReadOnlyCallError: Unavailable,
}

_DETAILS: Final[dict[type[Exception], str]] = {
    exceptions.ConnectionLoss: "the connection to ZooKeeper broke before the response",
    exceptions.SessionMovedError: "the session has moved to another server",
    exceptions.AuthFailedError: "authentication with ZooKeeper failed",
}

_NOT_THE_CAUSE: Final = (exceptions.RolledBackError, exceptions.RuntimeInconsistency)
"""Results of a failed multi for the operations before and after the one that failed."""


def store_error(exception: Exception, path: str, op_index: int | None = None) -> StoreError:
    """Return the store's error for an exception of kazoo, on this node."""
    kind = _BY_EXCEPTION.get(type(exception), StoreError)
    detail = _DETAILS.get(type(exception), "")
    if kind is StoreError:
        detail = f"{type(exception).__name__}: {exception}".removesuffix(": ")
    return kind(path, detail, op_index)


def find_failed_op(results: Sequence[object]) -> int | None:
    """Return the index of the operation that failed a multi, or None if the multi succeeded."""
    failures = [index for index, result in enumerate(results) if isinstance(result, Exception)]
    for index in failures:
        if not isinstance(results[index], _NOT_THE_CAUSE):
            return index
    return failures[0] if failures else None
