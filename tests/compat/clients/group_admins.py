"""Group administration, one class per client. Not every client supports every operation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final, Protocol

from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient
from tests.compat.clients.aiokafka import LoopThread
from tests.compat.clients.interface import ErrorResponse

with warnings.catch_warnings():
    # The client reads its schemas with a call that Python 3.11 deprecates; warnings are errors here.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, TopicPartition, errors
    from kafka.errors import KafkaError

SECONDS_MAX: Final = 30


class GroupAdmin(Protocol):
    def groups(self) -> set[str]:
        """Return the ids of all groups."""

    def state_of(self, group: str) -> tuple[str, int]:
        """Return the state of a group, in lower case, and its number of members."""

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """Return the committed offsets of a group in a topic, by partition."""

    def close(self) -> None:
        """Close the connection."""


class ConfluentAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": bootstrap})

    def groups(self) -> set[str]:
        listed = self._admin.list_consumer_groups().result(SECONDS_MAX)
        assert not listed.errors
        return {item.group_id for item in listed.valid}

    def state_of(self, group: str) -> tuple[str, int]:
        result = self._result(self._admin.describe_consumer_groups([group]))
        return result.state.name.lower().replace("_", ""), len(result.members)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        requested = [ConsumerGroupTopicPartitions(group)]
        result = self._result(self._admin.list_consumer_group_offsets(requested))
        return {
            partition.partition: partition.offset
            for partition in result.topic_partitions
            if partition.topic == topic
        }

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        self._result(self._admin.delete_consumer_groups([group]))

    def _result(self, futures: dict[Any, Any]) -> Any:
        (future,) = futures.values()
        try:
            return future.result(SECONDS_MAX)
        except KafkaException as error:
            raise ErrorResponse(error.args[0].code(), error.args[0].str()) from error

    def close(self) -> None:
        """Nothing to close."""


class KafkaPythonAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._admin = KafkaAdminClient(bootstrap_servers=bootstrap)

    def groups(self) -> set[str]:
        return {group["group_id"] for group in self._admin.list_groups()}

    def state_of(self, group: str) -> tuple[str, int]:
        result = self._admin.describe_groups([group])[group]
        return result["group_state"].lower(), len(result["members"])

    def committed(self, group: str, topic: str) -> dict[int, int]:
        result = self._admin.list_group_offsets(group)[group]
        return {item.partition: offset.offset for item, offset in result.items() if item.topic == topic}

    def delete_group(self, group: str) -> None:
        """Delete an empty group."""
        reported = self._admin.delete_groups([group])[group]
        if reported != "OK":
            raise ErrorResponse(getattr(errors, reported).errno)

    def delete_offset(self, group: str, topic: str, partition: int) -> None:
        """Delete one offset of a group."""
        at = TopicPartition(topic, partition)
        try:
            code = self._admin.delete_group_offsets(group, [at])[at].errno
        except KafkaError as error:
            code = getattr(error, "errno", -1000)
        if code:
            raise ErrorResponse(code)

    def close(self) -> None:
        self._admin.close()


class AiokafkaAdmin:
    def __init__(self, bootstrap: str) -> None:
        self._loop = LoopThread()
        self._admin = self._loop.run(self._begin(bootstrap))

    @staticmethod
    async def _begin(bootstrap: str) -> AIOKafkaAdminClient:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        return admin

    def groups(self) -> set[str]:
        return {name for name, *_ in self._loop.run(self._admin.list_consumer_groups())}

    def state_of(self, group: str) -> tuple[str, int]:
        (response,) = self._loop.run(self._admin.describe_consumer_groups([group]))
        ((code, name, state, _, _, members, *_),) = response.groups
        assert (code, name) == (0, group)
        return state.lower(), len(members)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        result = self._loop.run(self._admin.list_consumer_group_offsets(group))
        return {item.partition: offset.offset for item, offset in result.items() if item.topic == topic}

    def close(self) -> None:
        self._loop.run(self._admin.close())
        self._loop.close()


ADMINS: Final[dict[str, Callable[[str], GroupAdmin]]] = {
    "aiokafka": AiokafkaAdmin,
    "confluent-kafka": ConfluentAdmin,
    "kafka-python": KafkaPythonAdmin,
}
