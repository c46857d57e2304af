"""Checks the subjects of new commits, as CONTRIBUTING.md asks for them.

``python -P tests/commit_subjects.py`` prints each subject that breaks the rule, and ends with 1.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

LAST_UNCHECKED = "06e873a1adef232bc09aa1bb12c73c2160b18271"
"""The rule holds for the commits after this one: older subjects are not rewritten."""

LONGEST = 72
"""Characters of a subject, at most: `git log --oneline` shows them on a terminal of 80 columns."""

NOT_A_VERB = re.compile(
    r"(a|an|the|what|when|where|whoever|who|which|how|why|if|on|in|at|of|for|from|with|by|to|as|after"
    r"|before|it|its|this|that|these|those|there|some|each|every|one|two|all|and|or|no|new)"
)
"""Words that begin a description, and never an instruction."""

IMPERATIVE = re.compile(
    r"(pass|process|address|focus|guess|miss|press|discuss|compress|express|cross|toss"
    r"|feed|need|embed|seed|speed|shed|bring|ring|string|swing)"
)
"""Imperatives that end like another form of a verb."""


def problem_of(subject: str) -> str:
    """Say in a few words why a subject is refused; empty if it is right."""
    if len(subject) > LONGEST:
        return f"it has {len(subject)} characters, and {LONGEST} are the most"
    if subject.endswith("."):
        return "it ends with a full stop"
    first = re.match(r"[A-Z][a-z-]*\b", subject)
    if first is None:
        return "it does not begin with a capitalised word"
    word = first.group().lower()
    is_other_form = re.search(r"(s|ed|ing)$", word) and not IMPERATIVE.fullmatch(word)
    if NOT_A_VERB.fullmatch(word) or is_other_form:
        return (
            f"{first.group()!r} is no imperative: write 'Refuse a commit', not 'Refuses a commit'"
        )
    return ""


def new_commits() -> tuple[list[str], str]:
    """List new commits as ``hash subject``, and say which commits these are."""
    known = _git("cat-file", "-e", f"{LAST_UNCHECKED}^{{commit}}").returncode == 0
    # A shallow clone does not tell old commits from new ones; its newest commit is new.
    wanted = [f"{LAST_UNCHECKED}..HEAD"] if known else ["-1", "HEAD"]
    log = _git("log", "--no-merges", "--format=%h %s", *wanted)
    if log.returncode:
        sys.exit(f"The commits cannot be read: {log.stderr.strip()}")
    scope = f"after {LAST_UNCHECKED[:7]}" if known else "at HEAD alone, since the clone is shallow"
    return log.stdout.splitlines(), scope


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True
    )


def main() -> None:
    """Check every new commit."""
    commits, scope = new_commits()
    found = [(each, problem_of(each.partition(" ")[2])) for each in commits]
    wrong = [f"{commit}\n    {problem}" for commit, problem in found if problem]
    sys.stdout.write("".join(f"{each}\n" for each in wrong))
    sys.stdout.write(f"{len(commits)} commits {scope}: {len(wrong)} subjects break the rule.\n")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
