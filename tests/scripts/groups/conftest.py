"""Runs text scenarios of the group coordinator shard.

A file consists of steps: a command, a line of dashes, and the resulting effects, one per line, then the state
and generation of the group if they changed. ``ODRADEK_REWRITE=1`` writes the actual effects instead of
comparing. The group is ``g``. Member ids are the client's name, or the instance's, and a number. The default
session timeout is 10 s, the default rebalance timeout 60 s.

    join a  |  join a-1  |  join a old  |  join x instance=i  |  join a-1 instance=i protocols=range:m,sticky
                            a name without a number is a client without a member id; ``old`` clients need no
                            id to join; ``v9`` clients know that a leader may skip the assignment
    sync a-1 1 a-1=x b-2=y  a member, its generation, and the assignments of a leader
    heartbeat a-1 1         also with instance=
    leave a-1 b-2 @i        members, and a static one by its instance; a-1@i has both
    commit a-1 1 orders-0=5 a member or -, a generation, and offsets; producer=7 for a transactional commit
    end_transaction 7 commit  end of the transaction of a producer: commit or abort
    fetch, partitions_deleted, delete_offsets, delete, describe, list
    write | fail CODE       result of the oldest append
    wait 3000               advance the clock
    move                    move the partition to another broker, which loads it
    set members_max 2       change a setting
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.simulation.group_simulation import GroupSimulation

from odradek.coordinators.effects import (
    AppendRecords,
    CancelTimer,
    CoordinatorRecord,
    Effect,
    LogEvent,
    Reply,
    ScheduleTimer,
)
from odradek.coordinators.groups import commands as c
from odradek.coordinators.groups.membership.rebalance import JoinTimer, SessionTimer, SyncTimer
from odradek.coordinators.groups.records import GroupKey, OffsetKey, read_group, read_key, read_offset
from odradek.model.errors import ErrorCode
from odradek.model.ids import TopicPartition

SEPARATOR = "----"
GROUP = "g"
HAS_ID = re.compile(r"-\d+$")


class Scenario:
    def __init__(self) -> None:
        self.simulation = GroupSimulation()
        self.simulation.on_effect = self._show
        self.lines: list[str] = []
        self.line = ""

    def run(self, line: str) -> list[str]:
        self.lines, self.line = [], line
        before = self._state()
        command, *arguments = line.split()
        options = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
        getattr(self, f"_{command}")([argument for argument in arguments if "=" not in argument], options)
        if self._state() != before:
            self.lines.append(f"now {self._state()}")
        return self.lines or ["no effect"]

    def _state(self) -> str:
        group = self.simulation.shard.groups.get(GROUP)
        return "no group" if group is None else f"{group.state.value} {group.generation}"

    def _submit(self, command: Any) -> None:
        self.simulation.submit(command, self.line)

    def _join(self, arguments: list[str], options: dict[str, str]) -> None:
        client, *flags = arguments
        member = client if HAS_ID.search(client) else ""
        protocols = [
            protocol.partition(":") for protocol in options.get("protocols", "range").split(",") if protocol
        ]
        self._submit(
            c.JoinGroup(
                GROUP,
                member,
                options.get("instance"),
                client.partition("-")[0],
                "/host",
                int(options.get("session", 10_000)),
                int(options.get("rebalance", 60_000)),
                options.get("type", "consumer"),
                tuple((name, metadata.encode()) for name, _, metadata in protocols),
                requires_known_member_id="old" not in flags,
                supports_skipping_assignment="v9" in flags,
            )
        )

    def _sync(self, arguments: list[str], options: dict[str, str]) -> None:
        member, generation = arguments
        optional = {name: options.pop(name, None) for name in ("instance", "type", "protocol")}
        assignments = {name: part.encode() for name, part in options.items()}
        self._submit(
            c.SyncGroup(
                GROUP,
                int(generation),
                member,
                optional["instance"],
                optional["type"],
                optional["protocol"],
                assignments,
            )
        )

    def _heartbeat(self, arguments: list[str], options: dict[str, str]) -> None:
        self._submit(c.Heartbeat(GROUP, int(arguments[1]), arguments[0], options.get("instance")))

    def _leave(self, arguments: list[str], _options: dict[str, str]) -> None:
        pairs = [argument.partition("@") for argument in arguments]
        self._submit(
            c.LeaveGroup(GROUP, tuple(c.LeavingMember(name, instance or None) for name, _, instance in pairs))
        )

    def _commit(self, arguments: list[str], options: dict[str, str]) -> None:
        member, generation = arguments
        instance, producer_id = options.pop("instance", None), int(options.pop("producer", -1))
        offsets = {
            _partition(name): c.OffsetAndMetadata(int(offset), -1, "", self.simulation.now.wall_ms)
            for name, offset in options.items()
        }
        member = "" if member == "-" else member
        self._submit(c.CommitOffsets(GROUP, int(generation), member, instance, offsets, producer_id, 0))

    def _end_transaction(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.end_transaction(int(arguments[0]), commits=arguments[1] == "commit")

    def _delete(self, _words: list[str], _options: dict[str, str]) -> None:
        self._submit(c.DeleteGroup(GROUP))

    def _partitions_deleted(self, arguments: list[str], _options: dict[str, str]) -> None:
        self._submit(c.PartitionsDeleted(tuple(map(_partition, arguments))))

    def _delete_offsets(self, arguments: list[str], _options: dict[str, str]) -> None:
        """delete_offsets orders-0."""
        self._submit(c.DeleteOffsets(GROUP, tuple(map(_partition, arguments))))

    def _fetch(self, arguments: list[str], _options: dict[str, str]) -> None:
        """fetch stable orders-0 - offsets of these partitions, or of all."""
        partitions = [_partition(argument) for argument in arguments if argument != "stable"]
        code, offsets = self.simulation.shard.fetch_offsets(GROUP, partitions or None, "stable" in arguments)
        self.lines += [
            f"{partition} {offset.error.name} {offset.offset}" for partition, offset in offsets.items()
        ]
        self.lines += [] if code is ErrorCode.NONE else [code.name]

    def _describe(self, _words: list[str], _options: dict[str, str]) -> None:
        self.lines.append(_format_description(self.simulation.shard.describe(GROUP)))

    def _list(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.lines += [
            f"{group.group_id} {group.state}" for group in self.simulation.shard.listing(arguments)
        ]

    def _write(self, _words: list[str], _options: dict[str, str]) -> None:
        self.simulation.commit()

    def _fail(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.refuse(ErrorCode[arguments[0]])

    def _wait(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.wait(int(arguments[0]))

    def _move(self, _words: list[str], _options: dict[str, str]) -> None:
        self.simulation.move()

    def _set(self, arguments: list[str], _options: dict[str, str]) -> None:
        self.simulation.set(**{arguments[0]: int(arguments[1])})

    def _show(self, effect: Effect) -> None:
        # test_rebalance_logging.py has the log events.
        if not isinstance(effect, LogEvent):
            self.lines.append(_format_effect(effect))


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _format_effect(effect: Effect) -> str:
    match effect:
        case Reply(to, response):
            return f"{to} <- {_format_response(response)}"
        case AppendRecords(records, _note, producer):
            transaction = "" if producer is None else f" for producer {producer.producer_id}"
            return f"append{transaction} {', '.join(map(_format_record, records))}"
        case ScheduleTimer(timer, delay_ms):
            return f"schedule {_format_timer(timer)} in {delay_ms} ms"
        case CancelTimer(timer):
            return f"cancel {_format_timer(timer)}"
    raise AssertionError(f"no text for {effect}")


def _format_timer(timer: object) -> str:
    match timer:
        case SessionTimer(_, member):
            return f"session timer of {member}"
        case JoinTimer():
            return "join timer"
        case SyncTimer():
            return "sync timer"
    return "offset expiration timer"


def _format_record(record: CoordinatorRecord) -> str:
    key = read_key(record.key)
    if isinstance(key, OffsetKey):
        value = "tombstone" if record.value is None else read_offset(record.value).offset
        return f"{key.topic}-{key.partition}={value}"
    assert isinstance(key, GroupKey)
    if record.value is None:
        return "group tombstone"
    group = read_group(record.value)
    members = " ".join(
        f"{member.member_id}={member.assignment.decode() or 'empty'}" for member in group.members
    )
    leader = f", leader {group.leader}: {members}" if members else ", empty"
    return f"generation {group.generation} {group.protocol or 'without protocol'}{leader}"


def _format_response(response: Any) -> str:
    match response:
        case ErrorCode():
            return response.name
        case c.JoinGroupResult(ErrorCode.NONE):
            members = " ".join(
                f"{member.member_id}:{member.metadata.decode()}" for member in response.members
            )
            skip = " skip" if response.skip_assignment else ""
            return (
                f"{response.member_id} in generation {response.generation} {response.protocol}, "
                f"leader {response.leader}{skip} [{members}]"
            )
        case c.JoinGroupResult():
            return f"{response.error.name} {response.member_id}".strip()
        case c.SyncGroupResult(ErrorCode.NONE):
            assignment = response.assignment.decode() or "empty"
            return f"{assignment} by {response.protocol_type} {response.protocol}"
        case c.SyncGroupResult():
            return response.error.name
        case c.LeaveGroupResult(code, errors):
            return " ".join(error.name for error in errors) or code.name
        case c.CommitOffsetsResult(errors):
            return " ".join(f"{partition}={code.name}" for partition, code in errors.items())
        case c.DeleteOffsetsResult(code, errors):
            return " ".join(f"{partition}={error.name}" for partition, error in errors.items()) or code.name
    return str(response)


def _format_description(described: c.GroupDescription) -> str:
    members = [
        f"{member.member_id}{'@' + member.instance_id if member.instance_id else ''}"
        f":{member.metadata.decode()}={member.assignment.decode() or 'empty'}"
        for member in described.members
    ]
    facts = (described.error.name, described.state, described.protocol_type or "-", described.protocol or "-")
    return " ".join([*facts, *members])


def run_script(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        actual = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{actual}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert actual == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return run_script
