"""A broker that kills itself: ``self_killing_broker.py ARMED LABEL NTH name=value …``.

It is ``odradek serve`` with a file system that labels and counts operations. Counting begins once the file
ARMED exists; before the NTH operation with this label the process sends itself SIGKILL. Label ``trace``
kills nothing and writes each operation to ARMED.trace instead.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TRACE = "trace"


def label_of(operation: str, path: str) -> str:
    """Return the label of a file operation: operation, directory kind, and the file's suffix or name."""
    parent, _, name = path.rpartition("/")
    where = next((mark[1:] + "/" for mark in ("-future", "-delete") if parent.endswith(mark)), "")
    for mark in ("-future", "-delete"):
        if name.endswith(mark):
            name = f"log{mark}"
    if name[:20].isdigit():
        name = name[20:]
    if "." not in name and name.rpartition("-")[2].isdigit():
        name = "log"
    return f"{operation} {where}{name}"


class Executioner:
    """Counts the operations of a label and kills the process before the chosen one."""

    def __init__(self, armed: str, label: str, nth: int) -> None:
        self._armed = armed
        self._label = label
        self._left = nth
        self._is_armed = False

    def __call__(self, operation: str, path: str) -> None:
        if not self._is_armed:
            self._is_armed = os.path.exists(self._armed)
            if not self._is_armed:
                return
        label = label_of(operation, path)
        if self._label == TRACE:
            with open(f"{self._armed}.{TRACE}", "a") as trace:
                trace.write(label + "\n")
        elif label == self._label:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main(arguments: list[str]) -> int:
    from tests.faults.storage.watched_files import WatchedFiles

    from odradek.broker import main as broker
    from odradek.broker.serve_options import ServeOptions
    from odradek.system.files import RealFileSystem

    armed, label, nth, *pairs = arguments
    executioner = Executioner(armed, label, int(nth))
    broker.RealFileSystem = lambda: WatchedFiles(RealFileSystem(), executioner)  # type: ignore[assignment,attr-defined,misc]
    return broker.run(ServeOptions(settings=tuple(pairs), log_level="warning"), {})


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
