"""A member of a group, and what of it waits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from odradek.coordinators.groups.commands import JoinedMember, MemberDescription
from odradek.coordinators.groups.records import StoredMember

Protocols = tuple[tuple[str, bytes], ...]
"""What a member can speak, best first, each with what it wants the leader to know."""


class _Nobody:
    """Stands where nobody waits: a command may have been handed in with anything, even with None."""

    def __repr__(self) -> str:
        return "nobody"


NOBODY: Final[Any] = _Nobody()


@dataclass(slots=True, eq=False)
class GroupMember:
    member: str
    instance: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Any = NOBODY
    """Whom to answer when the rebalance is through; changed by the group, which counts those who wait."""
    syncing: Any = NOBODY
    """Whom to answer when the leader's assignment is stored."""
    is_new: bool = False
    """It was in no generation yet, so it cannot send heartbeats while it waits."""

    @property
    def awaits_join(self) -> bool:
        return self.joining is not NOBODY

    @property
    def awaits_sync(self) -> bool:
        return self.syncing is not NOBODY

    @property
    def is_excused(self) -> bool:
        """A client whose answer we owe sends no heartbeats. A new member is not excused for ever: its client
        may be gone and have joined anew under another id."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def metadata(self, protocol: str) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def joined(self, protocol: str) -> JoinedMember:
        return JoinedMember(self.member, self.instance, self.metadata(protocol))

    def stored(self, protocol: str, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member,
            self.instance,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def description(self, protocol: str | None) -> MemberDescription:
        """Without a protocol that holds, there is nothing to say of metadata and assignment."""
        said = (b"", b"") if protocol is None else (self.metadata(protocol), self.assignment)
        return MemberDescription(self.member, self.instance, self.client_id, self.client_host, *said)


def restored(stored: StoredMember, protocol: str) -> GroupMember:
    """The member a record tells of. It can speak what the group spoke, as far as anybody knows."""
    return GroupMember(
        stored.member,
        stored.instance,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        ((protocol, stored.subscription),),
        stored.assignment,
    )
