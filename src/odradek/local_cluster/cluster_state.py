"""A cluster and the processes of its members, as stored in ``cluster.json``. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from odradek.local_cluster.cluster_spec import ClusterSpec
from odradek.ports.processes import ProcessIdentity

_VERSION: Final = 1


class ClusterState(NamedTuple):
    """A cluster, and the last process of each member that was started."""

    spec: ClusterSpec
    processes: Mapping[str, ProcessIdentity]

    def with_process(self, member: str, identity: ProcessIdentity) -> ClusterState:
        return self._replace(processes={**self.processes, member: identity})


def encode(state: ClusterState) -> str:
    """Return the text of the file."""
    spec = state.spec
    return json.dumps(
        {
            "version": _VERSION,
            "brokers": spec.brokers,
            "port": spec.port,
            "zookeeper_port": spec.zookeeper_port,
            "racks": list(spec.racks),
            "settings": dict(spec.settings),
            "processes": {
                member: {"process_id": identity.process_id, "start": identity.start}
                for member, identity in state.processes.items()
            },
        },
        indent=2,
    )


def decode(text: str) -> ClusterState:
    """Parse the text of the file; raise ValueError if it is not what ``encode`` returned."""
    try:
        fields: dict[str, Any] = json.loads(text)
        if fields["version"] != _VERSION:
            raise ValueError(f"version must be {_VERSION}, got {fields['version']}")
        spec = ClusterSpec(
            int(fields["brokers"]),
            int(fields["port"]),
            int(fields["zookeeper_port"]),
            tuple(map(str, fields["racks"])),
            {str(name): str(value) for name, value in fields["settings"].items()},
        )
        processes = {
            member: ProcessIdentity(int(process["process_id"]), str(process["start"]))
            for member, process in fields["processes"].items()
        }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"missing or wrong field: {error!r}") from error
    return ClusterState(spec, processes)
