"""Compare the states that recordings tell with those that real kills leave.

Run by hand: ``python -P tests/derived_against_real.py SUBJECT [PROGRAMS] [SEED]``. Each program is
recorded once and killed before each of its write-like system calls. A state is what another process
reads then: the committed offsets and the rows, with the numbers of operations that had started and
returned. Prints a line for each program as JSON: the number of states of both kinds, and the states
that only real kills have left. Threads of a database may take another turn in each run.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from streamproof.conformance.check_loader import load_checks
from streamproof.conformance.check_run import CheckRun
from streamproof.conformance.crash.crash_judge import history_of
from streamproof.conformance.crash.crash_records import Crashed, CrashPoint
from streamproof.conformance.crash.inspector import Inspector
from streamproof.conformance.crash.kill_engine import KillEngine
from streamproof.conformance.crash.program import Program, ProgramBuilder
from streamproof.conformance.power.derived_kills import DerivedKills
from streamproof.conformance.power.syscall_recorder import recorder_is_loaded
from streamproof.conformance.running_call import RunningCall
from streamproof.conformance.settings import Settings
from streamproof.conformance.subject import load_subject
from streamproof.conformance.work_directory import work_directory
from streamproof.stores.syscalls.preloaded_libraries import preload

__all__: list[str] = []

MOST_STATES = 1_000
"""More moments than a program has, so that each one is looked at."""


def random_program(random: Random) -> Program:
    """Some commits of a few rows, with flushes in between, up to a close or not."""
    builder = ProgramBuilder()
    for number in range(random.randint(1, 4)):
        for _ in range(random.randint(0, 3)):
            value = b"%d" % number * random.choice((1, 3_000))
            builder.put(random.choice((b"a", b"b", b"c")), random.choice((value, value, None)))
        builder.commit()
        if random.random() < 0.7:
            builder.then("flush")
    if random.random() < 0.5:
        builder.then("close")
    return builder.build()


def states_of(run: CheckRun, crashes: Sequence[Crashed]) -> set[str]:
    """What another process reads after each crash."""
    capabilities = run.subject.capabilities
    histories = [history_of(each, capabilities, exact=run.exact) for each in crashes]
    seen = Inspector(run).observe(crashes, histories)
    for each in crashes:
        shutil.rmtree(each.directory.parent, ignore_errors=True)
    return {
        f"{crashed.started} {crashed.finished} {found.offsets} {sorted(found.content.items())} "
        f"{found.refused} {found.error}".replace(str(crashed.directory), "")
        for crashed, found in zip(crashes, seen, strict=True)
    }


def compare(run: CheckRun, program: Program) -> dict[str, object]:
    """The states of both kinds of one program."""
    derived, engine = DerivedKills(run), KillEngine(run)
    point = CrashPoint("syscall", 0, span=len(program))
    known = derived.count(program, point, None)
    count = engine.count(program, point)
    points = [CrashPoint("syscall", 0, n, span=len(program)) for n in range(1, count + 1)]
    told = derived.crashes(program, points * MOST_STATES, None)
    if told is None:
        return {"derived": None}
    left = [each for each in engine.kill_all(program, points) if each.reached]
    looked_at, real = states_of(run, [*told]), states_of(run, left)
    return {
        "calls": [known, count],
        "derived": len(looked_at),
        "real": len(real),
        "only real": sorted(real - looked_at),
    }


def main() -> None:
    """Print a line for each program."""
    name, programs, seed = [*sys.argv[1:], "3", "0"][:3]
    subject, check = load_subject(name), load_checks()["crash.in_every_system_call"]
    with work_directory() as directory:
        status = RunningCall(directory / "status", create=True)
        run = CheckRun(check, subject, Settings(), directory, status)
        random = Random(int(seed))
        for _ in range(int(programs)):
            sys.stdout.write(json.dumps(compare(run, random_program(random))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    if not recorder_is_loaded():
        with tempfile.TemporaryDirectory() as place:
            environment = {**os.environ, "LD_PRELOAD": preload(Path(place))}
            # The libraries are mapped for as long as it runs, and deleted after that.
            code = subprocess.run(sys.orig_argv, env=environment, check=False).returncode
        sys.exit(code)
    main()
