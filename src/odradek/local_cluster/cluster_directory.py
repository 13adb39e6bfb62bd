"""The directory of a local cluster.

```
cluster.json            the cluster and the processes of its members
lock                    held by the command that starts or stops members
zookeeper/              zoo.cfg, data/, zookeeper.log
broker-1/               server.properties, data/, broker.log
```
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from odradek.local_cluster.cluster_spec import ZOOKEEPER, cluster_command
from odradek.local_cluster.cluster_state import ClusterState, decode, encode
from odradek.local_cluster.errors import ClusterError
from odradek.local_cluster.up_plan import CLUSTER_FILE, LOCK_FILE, check_entries

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
"""A larger log is put aside when its member starts, in place of the one before."""
_ERROR_BYTES: Final = 64 * 1024


class ClusterDirectory:
    """Files of a cluster; ``path`` is as the user wrote it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.root = path.absolute()

    def load(self) -> ClusterState | None:
        """Return the stored cluster; None if the directory has none."""
        file = self.root / CLUSTER_FILE
        try:
            return decode(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            raise ClusterError(f"{self.path} is not a directory; choose another --directory") from None
        except (OSError, ValueError) as error:
            raise ClusterError(f"{self.path / CLUSTER_FILE} cannot be read: {error}") from error

    def require(self) -> ClusterState:
        """Return the stored cluster."""
        state = self.load()
        if state is None:
            raise ClusterError(
                f"no cluster in {self.path}; start one with {cluster_command('up', str(self.path))}, or name "
                "the --directory of another"
            )
        return state

    def save(self, state: ClusterState) -> None:
        """Replace the stored cluster; after a crash it is the old or the new one."""
        temporary = self.root / f"{CLUSTER_FILE}.new"
        with temporary.open("w", encoding="utf-8") as file:
            file.write(encode(state))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.root / CLUSTER_FILE)

    def check(self) -> None:
        """Refuse a directory that holds something else than a cluster."""
        try:
            check_entries(os.listdir(self.root), str(self.path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise ClusterError(
                f"{self.path} cannot be used: {error.strerror}; choose another --directory"
            ) from error

    def create(self) -> None:
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ClusterError(
                f"{self.path} cannot be created: {error.strerror}; choose another --directory"
            ) from error

    @contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Yield whether this command may change the cluster. The lock ends with the process."""
        with (self.root / LOCK_FILE).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def member(self, name: str) -> Path:
        return self.root / name

    def data(self, name: str) -> Path:
        return self.root / name / "data"

    def log(self, name: str) -> Path:
        return self.root / name / ("zookeeper.log" if name == ZOOKEEPER else "broker.log")

    def prepare_log(self, name: str) -> int:
        """Put a large log aside; return the size of the log."""
        log = self.log(name)
        size = log.stat().st_size if log.exists() else 0
        if size > LOG_BYTES_MAX:
            log.replace(log.with_suffix(".log.1"))
            return 0
        return size

    def error_in_log(self, name: str, position: int) -> str:
        """Return the last line that a member has printed behind a position of its log."""
        try:
            with self.log(name).open("rb") as file:
                file.seek(max(position, os.fstat(file.fileno()).st_size - _ERROR_BYTES))
                lines = file.read().decode(errors="replace").splitlines()
        except FileNotFoundError:
            return "no output"
        # Without blank lines and the frames of Java's stack traces.
        lines = [line.strip() for line in lines if line.strip() and not line.startswith("\t")]
        return lines[-1].removeprefix("odradek: ") if lines else "no output"
