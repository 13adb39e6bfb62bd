"""Runs text scenarios of the group shard.

A file holds steps: a command, a line of dashes, and what comes of it, one effect a line, then the state of
the group and its generation if they changed. ``ODRADEK_REWRITE=1`` writes down what came instead. The group
is called ``g``. Member ids are the client's name, or the instance's, with the number of the id behind.
Sessions last 10 s and rebalances 60 s, if a command does not say otherwise.

    join a  |  join a-1  |  join a old  |  join x instance=i  |  join a-1 instance=i protocols=range:m,sticky
                            one word without a number is a client without an id; ``old`` clients get no id
                            before they join; ``v9`` ones know that a leader may skip the assignment
    sync a-1 1 a-1=x b-2=y  a member, its generation, and what a leader assigns
    heartbeat a-1 1         also with instance=
    leave a-1 b-2 @i        members, and a static one by its instance; a-1@i is both
    commit a-1 1 orders-0=5 a member or -, a generation, and offsets; producer=7 makes it a transaction's
    end 7 commit            the transaction of a producer ends so, or with abort
    fetch, forget, offsets, delete, describe, list
    write | refuse CODE     what becomes of the oldest write
    wait 3000               time passes
    move                    the partition goes to another broker, and is loaded again
    set members_max 2       a setting
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
        self.world = GroupSimulation()
        self.world.on_effect = self._show
        self.lines: list[str] = []
        self.line = ""

    def run(self, line: str) -> list[str]:
        self.lines, self.line = [], line
        before = self._state()
        word, *given = line.split()
        options = dict(one.split("=", 1) for one in given if "=" in one)
        getattr(self, f"_{word}")([one for one in given if "=" not in one], options)
        if self._state() != before:
            self.lines.append(f"now {self._state()}")
        return self.lines or ["nothing"]

    def _state(self) -> str:
        group = self.world.shard.groups.get(GROUP)
        return "gone" if group is None else f"{group.state.value} {group.generation}"

    def _submit(self, command: Any) -> None:
        self.world.submit(command, self.line)

    def _join(self, words: list[str], options: dict[str, str]) -> None:
        who, *flags = words
        member = who if HAS_ID.search(who) else ""
        protocols = [one.partition(":") for one in options.get("protocols", "range").split(",") if one]
        self._submit(
            c.JoinGroup(
                GROUP,
                member,
                options.get("instance"),
                who.partition("-")[0],
                "/host",
                int(options.get("session", 10_000)),
                int(options.get("rebalance", 60_000)),
                options.get("type", "consumer"),
                tuple((name, metadata.encode()) for name, _, metadata in protocols),
                requires_known_member_id="old" not in flags,
                supports_skipping_assignment="v9" in flags,
            )
        )

    def _sync(self, words: list[str], options: dict[str, str]) -> None:
        member, generation = words
        named = {name: options.pop(name, None) for name in ("instance", "type", "protocol")}
        assignments = {name: part.encode() for name, part in options.items()}
        self._submit(
            c.SyncGroup(
                GROUP,
                int(generation),
                member,
                named["instance"],
                named["type"],
                named["protocol"],
                assignments,
            )
        )

    def _heartbeat(self, words: list[str], options: dict[str, str]) -> None:
        self._submit(c.Heartbeat(GROUP, int(words[1]), words[0], options.get("instance")))

    def _leave(self, words: list[str], _options: dict[str, str]) -> None:
        pairs = [one.partition("@") for one in words]
        self._submit(
            c.LeaveGroup(GROUP, tuple(c.LeavingMember(name, instance or None) for name, _, instance in pairs))
        )

    def _commit(self, words: list[str], options: dict[str, str]) -> None:
        member, generation = words
        instance, producer_id = options.pop("instance", None), int(options.pop("producer", -1))
        offsets = {
            _partition(name): c.OffsetAndMetadata(int(offset), -1, "", self.world.now.wall_ms)
            for name, offset in options.items()
        }
        member = "" if member == "-" else member
        self._submit(c.CommitOffsets(GROUP, int(generation), member, instance, offsets, producer_id, 0))

    def _end(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.end_transaction(int(words[0]), commits=words[1] == "commit")

    def _delete(self, _words: list[str], _options: dict[str, str]) -> None:
        self._submit(c.DeleteGroup(GROUP))

    def _forget(self, words: list[str], _options: dict[str, str]) -> None:
        self._submit(c.PartitionsDeleted(tuple(map(_partition, words))))

    def _offsets(self, words: list[str], _options: dict[str, str]) -> None:
        """offsets orders-0 - delete these."""
        self._submit(c.DeleteOffsets(GROUP, tuple(map(_partition, words))))

    def _fetch(self, words: list[str], _options: dict[str, str]) -> None:
        """fetch stable orders-0 - the offsets of these, or of all."""
        named = [_partition(one) for one in words if one != "stable"]
        code, found = self.world.shard.fetch_offsets(GROUP, named or None, "stable" in words)
        self.lines += [f"{one} {each.error.name} {each.offset}" for one, each in found.items()]
        self.lines += [] if code is ErrorCode.NONE else [code.name]

    def _describe(self, _words: list[str], _options: dict[str, str]) -> None:
        self.lines.append(_fields(self.world.shard.describe(GROUP)))

    def _list(self, words: list[str], _options: dict[str, str]) -> None:
        self.lines += [f"{one.group_id} {one.state}" for one in self.world.shard.listing(words)]

    def _write(self, _words: list[str], _options: dict[str, str]) -> None:
        self.world.commit()

    def _refuse(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.refuse(ErrorCode[words[0]])

    def _wait(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.wait(int(words[0]))

    def _move(self, _words: list[str], _options: dict[str, str]) -> None:
        self.world.move()

    def _set(self, words: list[str], _options: dict[str, str]) -> None:
        self.world.set(**{words[0]: int(words[1])})

    def _show(self, effect: Effect) -> None:
        # test_rebalance_logging.py has the log events.
        if not isinstance(effect, LogEvent):
            self.lines.append(_shown(effect))


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _shown(effect: Effect) -> str:
    match effect:
        case Reply(to, answer):
            return f"{to} <- {_answer(answer)}"
        case AppendRecords(entries, _note, producer):
            told = "" if producer is None else f" for producer {producer.producer_id}"
            return f"write{told} {', '.join(map(_entry, entries))}"
        case ScheduleTimer(timer, delay_ms):
            return f"in {delay_ms}: {_timer(timer)}"
        case CancelTimer(timer):
            return f"never: {_timer(timer)}"


def _timer(timer: object) -> str:
    match timer:
        case SessionTimer(_, member):
            return f"session of {member} ends"
        case JoinTimer():
            return "time to join ends"
        case SyncTimer():
            return "time to sync ends"
    return "look for old offsets"


def _entry(entry: CoordinatorRecord) -> str:
    key = read_key(entry.key)
    if isinstance(key, OffsetKey):
        value = "none" if entry.value is None else read_offset(entry.value).offset
        return f"{key.topic}-{key.partition}={value}"
    assert isinstance(key, GroupKey)
    if entry.value is None:
        return "no group"
    group = read_group(entry.value)
    members = " ".join(f"{one.member_id}={one.assignment.decode() or 'nothing'}" for one in group.members)
    leads = f", {group.leader} leads: {members}" if members else ", empty"
    return f"generation {group.generation} {group.protocol or 'without protocol'}{leads}"


def _answer(answer: Any) -> str:
    match answer:
        case ErrorCode():
            return answer.name
        case c.JoinGroupResult(ErrorCode.NONE):
            members = " ".join(f"{one.member_id}:{one.metadata.decode()}" for one in answer.members)
            skips = " skip" if answer.skip_assignment else ""
            return (
                f"{answer.member_id} in generation {answer.generation} {answer.protocol}, "
                f"{answer.leader} leads{skips} [{members}]"
            )
        case c.JoinGroupResult():
            return f"{answer.error.name} {answer.member_id}".strip()
        case c.SyncGroupResult(ErrorCode.NONE):
            return f"{answer.assignment.decode() or 'nothing'} by {answer.protocol_type} {answer.protocol}"
        case c.SyncGroupResult():
            return answer.error.name
        case c.LeaveGroupResult(code, errors):
            return " ".join(one.name for one in errors) or code.name
        case c.CommitOffsetsResult(errors):
            return " ".join(f"{one}={code.name}" for one, code in errors.items())
        case c.DeleteOffsetsResult(code, errors):
            return " ".join(f"{one}={each.name}" for one, each in errors.items()) or code.name
    return str(answer)


def _fields(described: c.GroupDescription) -> str:
    members = [
        f"{one.member_id}{'@' + one.instance_id if one.instance_id else ''}"
        f":{one.metadata.decode()}={one.assignment.decode() or 'nothing'}"
        for one in described.members
    ]
    facts = (described.error.name, described.state, described.protocol_type or "-", described.protocol or "-")
    return " ".join([*facts, *members])


def play(path: Path) -> None:
    scenario, written = Scenario(), []
    for block in path.read_text(encoding="utf-8").strip().split("\n\n"):
        head, _, expected = block.partition(f"\n{SEPARATOR}")
        command = [line for line in head.splitlines() if not line.startswith("#")][-1]
        found = "\n".join(scenario.run(command))
        written.append(f"{head}\n{SEPARATOR}\n{found}")
        if "ODRADEK_REWRITE" not in os.environ:
            assert found == expected.strip(), f"after: {command}"
    if "ODRADEK_REWRITE" in os.environ:
        path.write_text("\n\n".join(written) + "\n", encoding="utf-8")


@pytest.fixture(scope="session")
def run() -> Callable[[Path], None]:
    return play
