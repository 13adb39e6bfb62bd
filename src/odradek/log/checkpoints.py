"""Checkpoint and metadata files: offsets per partition, topic id, clean shutdown. Always replaced as a whole.

Offset checkpoints of a log directory (``recovery-point-offset-checkpoint``,
``log-start-offset-checkpoint``, ``replication-offset-checkpoint``, ``cleaner-offset-checkpoint``)::

    0                       version
    2                       number of lines that follow
    orders 0 1042           topic, partition, offset
    orders 1 77

``leader-epoch-checkpoint``, one per log, has the same shape; see ``leader_epoch_cache``.

``partition.metadata`` is two lines, ``version: 0`` and ``topic_id: `` with the id in URL-safe base64 without
padding. ``.kafka_cleanshutdown`` is JSON: ``{"version":0,"brokerEpoch":-1}``.

A malformed file raises ``StorageError`` with its path; a missing or empty file counts as having no entries.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Final

from odradek.model.errors import StorageError
from odradek.model.ids import TopicId, TopicPartition
from odradek.ports.files import FileSystem

RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
CLEAN_SHUTDOWN_FILE: Final = ".kafka_cleanshutdown"
LOCK_FILE: Final = ".lock"

_VERSION = "0"


def _read_lines(files: FileSystem, path: str) -> list[list[str]]:
    try:
        text = files.read_whole(path).decode()
    except FileNotFoundError:
        return []
    except UnicodeDecodeError:
        raise StorageError(f"{path} must be UTF-8 text") from None
    version, _, rest = text.partition("\n")
    count, _, rest = rest.partition("\n")
    if not version.strip() or not count.strip():
        return []
    if version.strip() != _VERSION:
        raise StorageError(f"{path}: version must be {_VERSION}, got {version!r}")
    lines = rest.splitlines()
    if not count.strip().isdigit() or int(count) != len(lines):
        raise StorageError(f"{path}: expected {count!r} lines, got {len(lines)}")
    return [line.split() for line in lines]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def read_offsets(files: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Read an offset checkpoint."""
    offsets = {}
    for line in _read_lines(files, path):
        try:
            topic, partition, offset = line
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise StorageError(
                f"{path}: a line must be topic, partition and offset, got {' '.join(line)!r}"
            ) from None
    return offsets


def encode_partition_metadata(topic_id: TopicId) -> bytes:
    identifier = base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode()
    return f"version: 0\ntopic_id: {identifier}".encode()


def read_partition_metadata(files: FileSystem, path: str) -> TopicId | None:
    """Return the topic id; ``None`` if the file is missing or empty."""
    try:
        text = files.read_whole(path).decode("ascii", "replace")
    except FileNotFoundError:
        return None
    if not text.strip():
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0":
        raise StorageError(f"{path}: version must be 0, got {fields.get('version')!r}")
    try:
        topic_id = base64.urlsafe_b64decode(fields.get("topic_id", "") + "==")
    except (binascii.Error, ValueError):
        topic_id = b""
    if len(topic_id) != 16:
        raise StorageError(f"{path}: topic_id must be 16 bytes in base64, got {fields.get('topic_id')!r}")
    return topic_id


def encode_clean_shutdown(broker_epoch: int = -1) -> bytes:
    return json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
