"""Store hosts that do one thing wrong: the first argument says which. Nothing of ours is used."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

HOW = sys.argv[1]


def write(text: str, to: int = 1) -> None:
    """One line, at once."""
    os.write(to, text.encode() + b"\n")


def say(answer: Any) -> None:
    """An answer."""
    write(json.dumps(answer))


def hello(number: int) -> None:
    """Who it is, with what may be wrong about that."""
    capabilities: dict[str, Any] = {"persistent": False}
    if HOW == "unknown capability":
        capabilities["quantum"] = True
    if HOW == "wrong capability":
        capabilities["transactional"] = "perhaps"
    if HOW == "windows":
        capabilities = {"kind": "window", "retention_ms": 1000, "window_size_ms": 10}
    if HOW == "windows without times":
        capabilities = {"kind": "window"}
    version = {"from the future": 3, "windows without times": 2}.get(HOW, 1)
    say({"id": number, "ok": {"protocol": version, "capabilities": capabilities}})


def misbehave(number: int) -> None:
    """What happens instead of the answer to ``get``."""
    fine = f'{{"id": {number}, "ok": null}}'
    said = {
        "nonsense": "Segmentation fault (core dumped)",
        "neither": json.dumps({"id": number}),
        "wrong id": json.dumps({"id": number + 7, "ok": None}),
        "wrong type": json.dumps({"id": number, "ok": 5}),
        "twice": f"{fine}\n{fine}",
        "unsupported": json.dumps(
            {"id": number, "error": {"kind": "unsupported", "message": "no such thing"}}
        ),
        "strange kind": json.dumps(
            {"id": number, "error": {"kind": "haunted", "message": "a ghost"}}
        ),
    }
    if HOW in said:
        write(said[HOW])
    elif HOW in {"dies", "dies beside a child"}:
        write("the disk is on fire", 2)
        sys.exit(3)
    elif HOW == "leaves like a killed one":
        sys.exit(137)
    elif HOW == "is killed":
        os.kill(os.getpid(), signal.SIGSEGV)
    elif HOW == "closes":
        os.close(1)
        time.sleep(60)
    elif HOW == "late":
        time.sleep(60)


def main() -> None:
    """Answer until the input ends."""
    if HOW == "silent":
        time.sleep(60)
    if HOW == "talks first":
        write("Welcome to my store!")
    if HOW in {"leaves a child", "dies beside a child"}:
        # It keeps the output open.
        subprocess.Popen(["/bin/sleep", "60"], stdin=subprocess.DEVNULL)
    for line in sys.stdin:
        request = json.loads(line)
        if request["op"] == "hello":
            hello(request["id"])
        elif request["op"] == "get":
            misbehave(request["id"])
        else:
            say({"id": request["id"], "ok": None})


main()
