"""The groups behind one partition of ``__consumer_offsets``.

Invariant: ``apply`` alone changes what is durable (``Group.stored``), and a machine that was given the same
entries again knows the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Any

from odradek.coordinators.effects import Effects, Entry, Now
from odradek.coordinators.groups import describing, membership
from odradek.coordinators.groups.commands import Command, GroupDescription, GroupListing
from odradek.coordinators.groups.group import Group, restored_group
from odradek.coordinators.groups.records import GroupKey, OffsetKey, read_group, read_key
from odradek.coordinators.groups.settings import GroupSettings
from odradek.coordinators.groups.turn import Outcome, Turn
from odradek.model.errors import ErrorCode


class GroupMachine:
    def __init__(self, settings: Callable[[], GroupSettings], new_id: Callable[[], str]) -> None:
        self.groups: dict[str, Group] = {}
        self._settings = settings
        self._new_id = new_id
        self._under_way: dict[Outcome, None] = {}

    def _turn(self, now: Now) -> Turn:
        return Turn(now, self._settings, self._new_id, self._under_way)

    def handle(self, command: Command, to: Any, now: Now) -> Effects:
        turn = self._turn(now)
        membership.JUDGES[type(command)](self.groups, command, to, turn)
        return turn.effects

    def committed(self, note: Outcome, now: Now) -> Effects:
        turn = self._turn(now)
        if note in self._under_way:
            del self._under_way[note]
            note.committed(turn)
        return turn.effects

    def refused(self, note: Outcome, code: ErrorCode, now: Now) -> Effects:
        turn = self._turn(now)
        if note in self._under_way:
            del self._under_way[note]
            note.refused(code, turn)
        return turn.effects

    def fired(self, timer: Hashable, now: Now) -> Effects:
        turn = self._turn(now)
        membership.fired(self.groups, timer, turn)
        return turn.effects

    def apply(self, entry: Entry, producer_id: int = -1) -> None:
        key = read_key(entry.key)
        match key:
            case GroupKey(name):
                stored = None if entry.value is None else read_group(entry.value)
                group = self.groups.get(name)
                if group is None and stored is not None:
                    group = self.groups[name] = Group(name, None)
                if group is not None:
                    group.stored = stored
            case OffsetKey():
                pass

    def end_transaction(self, producer_id: int, *, commits: bool) -> None: ...

    def loaded(self, now: Now) -> Effects:
        turn = self._turn(now)
        for name, group in list(self.groups.items()):
            self.groups[name] = restored_group(name, group.stored, now.wall_ms)
            membership.take_up(self.groups[name], turn)
        return turn.effects

    def unloaded(self) -> Effects:
        turn = self._turn(Now(0, 0))
        for group in self.groups.values():
            membership.give_up(group, turn)
        for outcome in list(self._under_way):
            outcome.abandoned(turn)
        self.groups.clear()
        self._under_way.clear()
        return turn.effects

    def describe(self, group: str) -> GroupDescription:
        return describing.describe(self.groups.get(group))

    def listing(self, states: Collection[str]) -> list[GroupListing]:
        return describing.listing(self.groups.values(), states)
