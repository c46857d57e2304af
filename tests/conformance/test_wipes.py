"""How often the evidence of a crash rests on a wipe, which a store may ask for."""

from __future__ import annotations

from command_lines import CommandLine


def test_the_evidence_counts_the_wipes(command_line: CommandLine) -> None:
    """In the log, in the report and at the end; a store with transactions asks for none."""
    names = ("rocksdb-legacy", "rocksdb-transactional")
    ended = command_line.verify(*names, "--only", "CRASH-001", "--spec", "kafka-4.3")

    assert ended.code == 0, ended.stdout
    results = {each.subject: each for each in ended.log.results if each.requirement == "CRASH-001"}
    wiped, whole = (results[each] for each in names)
    assert 0 < wiped.wiped <= sum(wiped.crash_points.values())
    assert whole.wiped == 0 < sum(whole.crash_points.values())
    counted = sum(each.wiped for each in ended.log.checks)
    assert counted >= wiped.wiped
    page = (ended.out / "report.html").read_text("utf-8")
    assert f"after {counted:,} of them the store asked to be wiped" in page
    assert f"({counted:,} with a wipe, as the store asked)" in " ".join(ended.stdout.split())
