"""Topics and sample orders for a shipped pipeline, to try it on a new broker."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odradek.pipelines.clusters import admin_for
from odradek.pipelines.monitoring.progress import counted
from odradek.pipelines.query.topic_checks import written_topics

if TYPE_CHECKING:
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.spec.model import Spec

ORDERS_COUNT: Final = 100
_PLACES: Final = ("castle", "inn", "village", "school")
_START: Final = datetime.datetime(2026, 1, 31, 12, tzinfo=datetime.UTC)
_INTERVAL: Final = datetime.timedelta(minutes=1)


def orders(count: int = ORDERS_COUNT) -> list[dict[str, Any]]:
    """Return orders with the fields of the shipped pipelines, a minute apart. Pure."""
    return [
        {
            "id": number,
            "place": _PLACES[number % len(_PLACES)],
            "at": (_START + number * _INTERVAL).isoformat().replace("+00:00", "Z"),
            "amount": round(7.5 * (number % 40) + 0.25, 2),
        }
        for number in range(count)
    ]


def make_demo(spec: Spec) -> Iterator[str]:
    """Create the missing topics and tables of a pipeline with sample orders; yield messages."""
    brokers = spec.sink.brokers
    with admin_for(brokers, spec.sink.options) as admin:
        created = _create_topics(admin, [*spec.source.topics, *written_topics(spec).values()])
        if created:
            yield f"created {' and '.join(created)} on {brokers}"
        for topic in spec.source.topics:
            yield _fill_topic(admin, topic, brokers)
    if spec.source.type == "table" and spec.source.path is not None:
        yield _create_table(spec.source.path)


def _create_topics(admin: Admin, names: list[str]) -> list[str]:
    from odradek import NewTopic

    existing = set(admin.list_topics())
    missing = [name for name in names if name not in existing]
    if missing:
        admin.create_topics([NewTopic(name, 1) for name in missing])
    return [f"topic {name}" for name in missing]


def _fill_topic(admin: Admin, topic: str, brokers: str) -> str:
    from odradek import OffsetSpec, Producer, TopicPartition

    partitions = [
        TopicPartition(topic, partition.partition)
        for partition in admin.describe_topics([topic])[topic].partitions
    ]
    ends = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.LATEST))
    if any(end.offset for end in ends.values()):
        return f"topic {topic} already has records; none were sent"
    with Producer(bootstrap_servers=brokers) as producer:
        for order in orders():
            producer.send(topic, json.dumps(order).encode(), key=order["place"].encode())
    return f"sent {counted(ORDERS_COUNT, 'order')} to topic {topic}"


def _create_table(path: str) -> str:
    import pyarrow as pa
    from deltalake import write_deltalake

    if Path(path).exists():
        return f"{path} already exists; no rows were written"
    rows = pa.Table.from_pylist(
        [{**order, "at": datetime.datetime.fromisoformat(order["at"])} for order in orders()]
    )
    write_deltalake(path, rows)
    return f"wrote {counted(ORDERS_COUNT, 'order')} to the Delta table {path}"
