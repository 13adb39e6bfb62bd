"""Administrative APIs, whose requests are logged with the resources they name and their outcome."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any, Final

from odradek.broker.requests.dispatcher import LocalSession, RequestContext
from odradek.broker.requests.pending_response import PendingResponse
from odradek.model.errors import BrokerError, ErrorCode

NAMES_MAX: Final = 20
"""Resources of one request that are named; more are counted."""
NAME_CHARACTERS_MAX: Final = 249
DEPTH_MAX: Final = 4
"""Levels of a response that are searched for errors."""

Names = Callable[[Any], Iterable[object]]


def _topics(request: Any) -> Iterable[object]:
    return [topic.name for topic in request.topics]


def _deleted_topics(request: Any) -> Iterable[object]:
    return [*(request.topic_names or ()), *(topic.name or topic.topic_id for topic in request.topics or ())]


def _configs(request: Any) -> Iterable[object]:
    return [f"{resource.resource_type}:{resource.resource_name}" for resource in request.resources]


def _acl_creations(request: Any) -> Iterable[object]:
    return [
        f"{acl.principal} {acl.resource_type}:{acl.resource_name} {acl.operation}"
        for acl in request.creations
    ]


def _acl_filters(request: Any) -> Iterable[object]:
    return [
        f"{acl.principal_filter or 'any'} {acl.resource_type_filter}:{acl.resource_name_filter or 'any'}"
        for acl in request.filters
    ]


def _quota_entities(request: Any) -> Iterable[object]:
    return [
        ",".join(f"{part.entity_type}={part.entity_name or '<default>'}" for part in entry.entity)
        for entry in request.entries
    ]


def _scram_users(request: Any) -> Iterable[object]:
    return [*(entry.name for entry in request.deletions), *(entry.name for entry in request.upsertions)]


def _reassigned(request: Any) -> Iterable[object]:
    return [
        f"{topic.name}-{partition.partition_index}"
        for topic in request.topics
        for partition in topic.partitions
    ]


def _elected(request: Any) -> Iterable[object]:
    if request.topic_partitions is None:
        return ["all partitions"]
    return [topic.topic for topic in request.topic_partitions]


def _groups(request: Any) -> Iterable[object]:
    return list(request.groups_names)


def _group(request: Any) -> Iterable[object]:
    return [request.group_id]


def _moved_replicas(request: Any) -> Iterable[object]:
    return [topic.name for directory in request.dirs for topic in directory.topics]


def _token(request: Any) -> Iterable[object]:
    del request
    return ["a delegation token"]  # a request carries its HMAC, which is a secret


AUDITED: Final[Mapping[int, Names]] = {
    19: _topics,
    20: _deleted_topics,
    21: _topics,
    30: _acl_creations,
    31: _acl_filters,
    33: _configs,
    34: _moved_replicas,
    37: _topics,
    38: _token,
    39: _token,
    40: _token,
    42: _groups,
    43: _elected,
    44: _configs,
    45: _reassigned,
    47: _group,
    49: _quota_entities,
    51: _scram_users,
}
"""Names of the resources in a request, by API key."""


def audited(api_key: int, name: str, handle: Callable[[Any, RequestContext], Any]) -> Any:
    """Return a handler that logs its requests; other APIs are returned as they are."""
    names = AUDITED.get(api_key)
    if names is None:
        return handle

    def handle_and_log(request: Any, context: RequestContext) -> Any:
        if isinstance(context.session, LocalSession):
            return handle(request, context)
        try:
            result = handle(request, context)
        except BrokerError as error:
            _log(name, names(request), context, error.code.name)
            raise
        if isinstance(result, Coroutine):
            return _await_and_log(name, names(request), context, result)
        return _logged(name, names(request), context, result)

    return handle_and_log


async def _await_and_log(
    name: str, resources: Iterable[object], context: RequestContext, result: Coroutine[Any, Any, Any]
) -> Any:
    try:
        response = await result
    except BrokerError as error:
        _log(name, resources, context, error.code.name)
        raise
    return _logged(name, resources, context, response)


def _logged(name: str, resources: Iterable[object], context: RequestContext, result: Any) -> Any:
    """Log a result, now or on completion, and return it."""
    if not isinstance(result, PendingResponse):
        _log(name, resources, context, outcome(result))
        return result
    logged: PendingResponse[Any] = PendingResponse()

    def complete(response: Any) -> None:
        _log(name, resources, context, outcome(response))
        logged.complete(response)

    result.then(complete)
    return logged


def _log(name: str, resources: Iterable[object], context: RequestContext, result: str) -> None:
    texts = [str(resource)[:NAME_CHARACTERS_MAX] for resource in resources]
    shown = ", ".join(texts[:NAMES_MAX])
    if len(texts) > NAMES_MAX:
        shown = f"{len(texts)} resources, the first: {shown}"
    session = context.session
    context.broker.audit.changed(session.principal, session.peer_host, name, shown, result)


def outcome(response: object) -> str:
    """Return the names of the errors in a response, or NONE."""
    codes = sorted(set(_error_codes(response, DEPTH_MAX)))
    return ", ".join(ErrorCode(code).name for code in codes) or ErrorCode.NONE.name


def _error_codes(value: object, depth: int) -> Iterator[int]:
    if depth < 0:
        return
    code = getattr(value, "error_code", 0)
    if isinstance(code, int) and code:
        yield int(code)
    for name in getattr(type(value), "__slots__", ()):
        field = getattr(value, name, None)
        for each in field if isinstance(field, list) else ():
            yield from _error_codes(each, depth - 1)
