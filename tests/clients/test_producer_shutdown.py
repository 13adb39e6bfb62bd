"""Programs that exit, are interrupted, or lose their broker, with a real broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import Any

from tests.support.broker import Broker


def program(*lines: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=60, check=False
    )


def test_unclosed_producer_delivers_and_warns_at_exit(bootstrap: str, topic: str) -> None:
    completed = program(
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)",
        f"producer.send({topic!r}, b'v', on_delivery=lambda metadata, error: print('delivered', error))",
    )
    assert completed.returncode == 0
    assert completed.stdout == "delivered None\n"
    assert "producer_not_closed" in completed.stderr


def test_unclosed_idle_producer_exits_silently(bootstrap: str, topic: str) -> None:
    completed = program(
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={bootstrap!r})",
        f"producer.send({topic!r}, b'v').result(30)",
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")


def test_waits_can_be_interrupted_and_closed(start_broker: Any) -> None:
    broker: Broker = start_broker()
    completed = program(
        "import os, signal, threading, time",
        "from odradek import Producer",
        f"producer = Producer(bootstrap_servers={broker.bootstrap!r}, linger_ms=0)",
        "producer.send('letters', b'early').result(30)",
        f"os.kill({broker.pid}, signal.SIGSTOP)",
        "late = producer.send('letters', b'late', on_delivery=lambda _, error: print(type(error).__name__))",
        "def interrupted(call):",
        "    threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()",
        "    try:",
        "        call()",
        "    except KeyboardInterrupt:",
        "        print('interrupted')",
        "interrupted(late.result)",
        "interrupted(producer.flush)",
        "interrupted(lambda: producer.send('elsewhere', b'v'))",
        "interrupted(producer.close)",
        "began = time.monotonic()",
        "producer.close(0)",
        "print(time.monotonic() - began < 5, [thread.name for thread in threading.enumerate()])",
        f"os.kill({broker.pid}, signal.SIGCONT)",
    )
    os.kill(broker.pid, signal.SIGCONT)
    assert completed.stdout.split("\n") == [*["interrupted"] * 4, "ClientClosed", "True ['MainThread']", ""]
    assert completed.returncode == 0


def test_closed_event_loop_fails_pending_records(bootstrap: str, topic: str) -> None:
    completed = program(
        "import asyncio",
        "from odradek.aio import Producer",
        "async def send():",
        f"    return await producer.send({topic!r}, b'v', on_delivery=lambda _, error: print(repr(error)))",
        f"producer = Producer(bootstrap_servers={bootstrap!r}, linger_ms=60_000)",
        "print(asyncio.run(send()).done())",
        "try:",
        "    asyncio.run(send())",
        "except Exception as refused:",
        "    print(repr(refused))",
    )
    reason = "ClientClosed('the event loop of this producer ended before the producer was closed')"
    assert completed.stdout.split("\n") == [reason, "True", reason, ""]
    assert "producer_not_closed" in completed.stderr
