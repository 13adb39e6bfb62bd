"""The part of a recording that is worth keeping.

Exchanges are sorted into kinds by the features of request and response. The bytes of the first exchanges of
each kind are kept. Other fetches and responses are left out; other requests stay in the timeline without
their bytes, so that it shows the order of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from tests.support.interbroker.timeline import Message

from odradek.wire.apis import APIS
from odradek.wire.headers import decode_request_header, decode_response_header
from odradek.wire.message_codecs import decoder

KEPT_MAX = {"Fetch": 1, "UpdateMetadata": 1, "LeaderAndIsr": 2, "ApiVersions": 1, "AlterPartition": 3}
"""Exchanges of a kind in a scenario; of other APIs, ``OTHERS_KEPT_MAX``."""
OTHERS_KEPT_MAX = 3
API_BY_NAME = {api.name: api for api in APIS}


def select(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of a scenario to keep, some of them without their bytes."""
    responses = {message.number: decode(message) for message in messages if message.kind == "response"}
    counts: Counter[Hashable] = Counter()
    numbers = set()
    for message in messages:
        if message.kind == "request":
            kind = message.api, _features(message.api, decode(message), responses.get(message.number))
            counts[kind] += 1
            if counts[kind] <= KEPT_MAX.get(message.api, OTHERS_KEPT_MAX):
                numbers.add(message.number)
    return [
        message if message.number in numbers else message._replace(frame=b"")
        for message in messages
        if message.number in numbers or (message.kind == "request" and message.api != "Fetch")
    ]


def decode(message: Message) -> Any:
    """Return the body of the message."""
    api, frame = API_BY_NAME[message.api], memoryview(message.frame)
    if message.kind == "request":
        start, cls = decode_request_header(frame)[1], api.request
    else:
        start, cls = decode_response_header(frame, api.key, message.version)[1], api.response
    return decoder(cls, message.version)(frame, start)[0]


def _features(api: str, request: Any, response: Any) -> Hashable:
    match api:
        case "Fetch":
            return _features_of_fetch(request, response)
        case "LeaderAndIsr":
            return (
                frozenset(
                    (state.is_new, state.leader < 0, state.leader_recovery_state, bool(state.adding_replicas))
                    for topic in request.topic_states
                    for state in topic.partition_states
                ),
                None if response is None else _partition_errors(response),
            )
        case "UpdateMetadata":
            return (
                frozenset(
                    (min(state.leader, 0), bool(state.offline_replicas))
                    for topic in request.topic_states
                    for state in topic.partition_states
                ),
                len(request.live_brokers),
            )
        case _:
            return None if response is None else getattr(response, "error_code", 0)


def _partition_errors(response: Any) -> Hashable:
    return frozenset(error.error_code for topic in response.topics for error in topic.partition_errors)


def _features_of_fetch(request: Any, response: Any) -> Hashable:
    """Return the place in the fetch session, and the features of the partitions."""
    partitions = [] if response is None else [p for topic in response.responses for p in topic.partitions]
    return (
        request.session_epoch == 0,
        bool(request.topics),
        any(
            0 <= p.last_fetched_epoch < p.current_leader_epoch
            for topic in request.topics
            for p in topic.partitions
        ),
        bool(request.forgotten_topics_data),
        None if response is None else response.error_code,
        frozenset(partition.error_code for partition in partitions),
        any(partition.records for partition in partitions),
        any(partition.diverging_epoch is not None for partition in partitions),
    )
