"""A member of a group, and its pending JoinGroup and SyncGroup requests."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from odradek.coordinators.groups.commands import JoinedMember, MemberDescription
from odradek.coordinators.groups.records import StoredMember

Protocols = tuple[tuple[str, bytes], ...]
"""Protocols a member supports in order of preference, each with the metadata for the leader."""


class _NoRequest:
    """Marks the absence of a pending request: a reply handle may be any object, even None."""

    def __repr__(self) -> str:
        return "no request"


NO_REQUEST: Final[object] = _NoRequest()


@dataclass(slots=True, eq=False)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    pending_join: Any = NO_REQUEST
    """Reply handle of the JoinGroup request; set by the group, which counts joining members."""
    pending_sync: Any = NO_REQUEST
    """Reply handle of the SyncGroup request."""
    is_new: bool = False
    """The member was in no generation yet, so it cannot send heartbeats while it waits."""

    @property
    def awaits_join(self) -> bool:
        return self.pending_join is not NO_REQUEST

    @property
    def awaits_sync(self) -> bool:
        return self.pending_sync is not NO_REQUEST

    @property
    def keeps_session(self) -> bool:
        """True if the session is kept without heartbeats: a client sends none while it waits for a response.
        This does not apply to new members, whose client may have gone and joined with another member id."""
        return not self.is_new and (self.awaits_join or self.awaits_sync)

    def metadata(self, protocol: str) -> bytes:
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: Collection[str]) -> str:
        return next(name for name, _ in self.protocols if name in candidates)

    def to_joined_member(self, protocol: str) -> JoinedMember:
        return JoinedMember(self.member_id, self.instance_id, self.metadata(protocol))

    def to_stored(self, protocol: str, assignment: bytes) -> StoredMember:
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_timeout_ms,
            self.session_timeout_ms,
            self.metadata(protocol),
            assignment,
        )

    def describe(self, protocol: str | None) -> MemberDescription:
        """Describe the member; metadata and assignment are empty without a current protocol."""
        metadata, assignment = (b"", b"") if protocol is None else (self.metadata(protocol), self.assignment)
        return MemberDescription(
            self.member_id, self.instance_id, self.client_id, self.client_host, metadata, assignment
        )


def restore_member(stored: StoredMember, protocol: str) -> GroupMember:
    """Create a member from its record. Only the group's protocol is known to be supported by it."""
    return GroupMember(
        stored.member_id,
        stored.instance_id,
        stored.client_id,
        stored.client_host,
        stored.rebalance_timeout_ms,
        stored.session_timeout_ms,
        ((protocol, stored.subscription),),
        stored.assignment,
    )
