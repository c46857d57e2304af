"""What every compliance table must have, told slowly and without Spark, from runs in memory."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from streamproof.conformance.results import RequirementResult
from streamproof.reports.run_log import RunLog

Row = dict[str, Any]

COLUMNS = {
    "passed": "pass",
    "known": "known",
    "failed": "fail",
    "errors": "error",
    "skipped": "skip",
    "missing": "no result",
    "unsupported": "unsupported",
    "untested": "untested",
}
WORST_STATUS = ["fail", "known", "error", "skip", "pass", "unsupported", "untested", "no result"]
WORST_VERDICT = ["failure", "error", "incomplete", "partial", "success"]
STRONGEST = ["strong", "moderate", "weak", "example only", ""]


class Told(NamedTuple):
    """A run, and the file that tells of it."""

    path: str
    log: RunLog

    @property
    def age(self) -> tuple[str, str, str]:
        return self.log.header.started_at, self.log.header.run_id, self.path


class Answer(NamedTuple):
    """A status that a run gives, with all that the tables say of it."""

    told: Told
    subject: str
    version: str
    status: str
    result: RequirementResult

    @property
    def header(self) -> Any:
        return self.told.log.header

    @property
    def who(self) -> tuple[str, str, str, str]:
        return self.subject, self.version, self.header.guarantee, self.header.spec

    @property
    def requirement(self) -> str:
        return self.result.requirement

    @property
    def kills(self) -> int:
        return sum(self.result.crash_points.values())


def answers(told: Iterable[Told]) -> list[Answer]:
    """One for each requirement that is planned, for each subject of each run."""
    found = []
    for each in told:
        log = each.log
        results = {(one.subject, one.requirement): one for one in log.results}
        levels = {one.requirement: one for one in reversed(log.results)}
        failed = {(one.subject, one.requirement) for one in log.failures}
        for info in log.header.subjects:
            for requirement in log.header.requirements:
                result = results.get((info.name, requirement))
                if result is None:
                    about = levels.get(requirement)
                    stand_in = RequirementResult(
                        subject=info.name,
                        requirement=requirement,
                        title="",
                        promise="",
                        source="",
                        level=about.level if about else "MUST",
                        core=about.core if about else True,
                        status="skip",
                        reason="the run has no result for this requirement",
                    )
                    found.append(Answer(each, info.name, info.version, "no result", stand_in))
                else:
                    broken = (info.name, requirement) in failed and result.status != "known"
                    status = "fail" if broken else result.status
                    found.append(Answer(each, info.name, info.version, status, result))
    return found


def grouped(items: Iterable[Any], key: Callable[[Any], Any]) -> dict[Any, list[Any]]:
    groups = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def worst_status(statuses: Iterable[str]) -> str:
    return min(statuses, key=WORST_STATUS.index)


def worst_verdict(verdicts: Iterable[str]) -> str:
    return min(verdicts, key=WORST_VERDICT.index)


def tally(statuses: Iterable[str]) -> Row:
    counted = Counter(statuses)
    return {column: counted[status] for column, status in COLUMNS.items()}


def allowed(statuses: Iterable[tuple[str, str, bool]]) -> str:
    """The best verdict for statuses, each with its level and whether it is core."""
    all_ = list(statuses)
    if any(status == "fail" and level == "MUST" for status, level, _ in all_):
        return "failure"
    if any(status == "error" for status, _, _ in all_):
        return "error"
    for status, _, core in all_:
        if status in ("fail", "known", "no result") or (status == "skip" and core):
            return "partial"
    return "success" if any(status == "pass" for status, _, _ in all_) else "partial"


def subjects(told: list[Told]) -> list[Row]:
    mine = grouped(answers(told), lambda one: (one.told.path, one.subject))
    rows = []
    for each in told:
        stated = {v.subject: v for v in each.log.footer.verdicts} if each.log.footer else {}
        for info in each.log.header.subjects:
            found = mine[each.path, info.name]
            best = allowed((a.status, a.result.level, a.result.core) for a in found)
            verdict, summary = "incomplete", ""
            if info.name in stated:
                best = best if found else "error"
                verdict = worst_verdict([stated[info.name].verdict, best])
                summary = stated[info.name].summary
            rows.append(
                {
                    "path": each.path,
                    "run_id": each.log.header.run_id,
                    "started_at": each.log.header.started_at,
                    "subject": info.name,
                    "version": info.version,
                    "guarantee": each.log.header.guarantee,
                    "spec": each.log.header.spec,
                    "package": info.package,
                    "description": info.description,
                    "verdict": verdict,
                    "summary": summary,
                }
            )
    return rows


def run_verdicts(told: list[Told]) -> dict[str, str]:
    by_run = grouped(subjects(told), lambda row: row["path"])
    found = {}
    for each in told:
        verdict = "incomplete"
        if each.log.footer:
            of_subjects = [row["verdict"] for row in by_run[each.path]] or ["error"]
            verdict = worst_verdict([each.log.footer.verdict, *of_subjects])
        found[each.path] = verdict
    return found


def results(told: list[Told]) -> list[Row]:
    return [
        {
            "path": one.told.path,
            "run_id": one.header.run_id,
            "started_at": one.header.started_at,
            "subject": one.subject,
            "version": one.version,
            "guarantee": one.header.guarantee,
            "spec": one.header.spec,
            "seed": one.header.seed,
            "requirement": one.requirement,
            "area": one.requirement.split("-")[0],
            "level": one.result.level,
            "core": one.result.core,
            "status": one.status,
            "reason": one.result.reason,
            "strength": one.result.strength,
            "examples": one.result.examples,
            "crashes": one.kills,
            "line": one.result.crash_points.get("line", 0),
            "other": one.result.crash_points.get("enospc", 0),
            "wiped": one.result.wiped,
            "duration_ms": round(one.result.duration_s * 1000),
        }
        for one in answers(told)
    ]


def matrix(told: list[Told]) -> list[Row]:
    rows = []
    for (who, requirement), group in grouped(
        answers(told), lambda one: (one.who, one.requirement)
    ).items():
        status = worst_status(one.status for one in group)
        last = max(group, key=lambda one: (one.status != "no result", one.told.age))
        worst = max((one for one in group if one.status == status), key=lambda one: one.told.age)
        rows.append(
            dict(zip(("subject", "version", "guarantee", "spec"), who, strict=True))
            | {
                "requirement": requirement,
                "level": last.result.level,
                "core": last.result.core,
                "combined": status,
                "latest": last.status,
                "reason": worst.result.reason,
                "latest_run": last.header.run_id,
                "latest_at": last.header.started_at,
                "runs": sum(one.status != "no result" for one in group),
            }
            | tally(one.status for one in group)
        )
    return rows


def who_of(row: Row) -> tuple[str, str, str, str]:
    return row["subject"], row["version"], row["guarantee"], row["spec"]


def verdicts(told: list[Told]) -> list[Row]:
    cells = grouped(matrix(told), who_of)
    said = grouped(subjects(told), who_of)
    logs = {each.path: each for each in told}
    rows = []
    for who, group in said.items():
        mine = cells[who]
        complete = [row["verdict"] for row in group if logs[row["path"]].log.footer]
        newest = max(group, key=lambda row: logs[row["path"]].age)

        def best(column: str, mine: list[Row] = mine) -> str:
            return allowed((row[column], row["level"], row["core"]) for row in mine)

        broken = [r["requirement"] for r in mine if (r["combined"], r["level"]) == ("fail", "MUST")]
        rows.append(
            dict(zip(("subject", "version", "guarantee", "spec"), who, strict=True))
            | {
                "combined": worst_verdict([best("combined"), *(complete or ["incomplete"])]),
                "latest": worst_verdict([best("latest"), newest["verdict"]]),
                "broken": ", ".join(sorted(broken)),
                "first_at": min(row["started_at"] for row in group),
                "latest_at": max(row["started_at"] for row in group),
                "runs": len(group),
                "incomplete": len(group) - len(complete),
                "seeds": len({logs[row["path"]].log.header.seed for row in group}),
                "requirements": len(mine),
            }
            | tally(row["combined"] for row in mine)
        )
    return rows


def interval(caught: int, crashes: int) -> tuple[float, float]:
    """Wilson's interval, as the two roots of ``(p - x)**2 == z**2 * x * (1 - x) / n``."""
    if not crashes:
        return 0.0, 1.0
    if not caught:
        return 0.0, 1 - 0.05 ** (1 / crashes)
    share, z2 = caught / crashes, 1.959963984540054**2
    a, b, c = 1 + z2 / crashes, -(2 * share + z2 / crashes), share**2
    root = math.sqrt(b * b - 4 * a * c)
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def strength(told: list[Told]) -> list[Row]:
    tried = [one for one in answers(told) if one.status in ("pass", "known", "fail")]
    rows = []
    for (who, requirement), group in grouped(tried, lambda one: (one.who, one.requirement)).items():
        crashes = sum(one.kills for one in group)
        caught = sum(one.status != "pass" and one.kills > 0 for one in group)
        low, high = interval(caught, crashes)
        rows.append(
            dict(zip(("subject", "version", "guarantee", "spec"), who, strict=True))
            | {
                "requirement": requirement,
                "strength": min((one.result.strength for one in group), key=STRONGEST.index),
                "runs": len(group),
                "seeds": len({one.header.seed for one in group}),
                "examples": sum(one.result.examples for one in group),
                "crashes": crashes,
                "wiped": sum(one.result.wiped for one in group),
                "mutants": max(one.result.mutants for one in group),
                "caught": caught,
                "kill_share": caught / crashes if crashes else 0.0,
                "kill_low": low,
                "kill_high": high,
            }
        )
    return rows


def trends(told: list[Told]) -> list[Row]:
    points: list[tuple[str, Callable[[Any], str], Callable[[Row], str]]] = [
        ("version", lambda one: one.version, lambda row: row["version"]),
        ("date", lambda one: one.header.started_at[:10], lambda row: row["started_at"][:10]),
    ]
    rows = []
    for by, of_answer, of_subject in points:
        statuses: dict[Any, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
        for one in answers(told):
            key = one.subject, one.header.guarantee, one.header.spec, of_answer(one)
            statuses[key][one.requirement].append(one.status)
        runs = grouped(
            subjects(told),
            lambda row, of=of_subject: (row["subject"], row["guarantee"], row["spec"], of(row)),
        )
        for key, group in runs.items():
            counted = tally(worst_status(each) for each in statuses[key].values())
            asked = sum(counted.values()) - counted["unsupported"] - counted["untested"]
            rows.append(
                dict(zip(("subject", "guarantee", "spec", "point"), key, strict=True))
                | {
                    "by": by,
                    "first_at": min(row["started_at"] for row in group),
                    "runs": len(group),
                    "asked": asked,
                    "share": counted["passed"] / asked if asked else 0.0,
                }
                | counted
            )
    return rows


def newest_version(told: list[Told]) -> dict[tuple[str, str, str, str], Row]:
    """The combined status of each requirement, in the version of the newest run."""
    logs = {each.path: each for each in told}
    newest: dict[tuple[str, str, str], str] = {}
    for row in sorted(subjects(told), key=lambda row: logs[row["path"]].age):
        newest[row["subject"], row["guarantee"], row["spec"]] = row["version"]
    return {
        (row["subject"], row["guarantee"], row["spec"], row["requirement"]): row
        for row in matrix(told)
        if newest[row["subject"], row["guarantee"], row["spec"]] == row["version"]
    }


def difference(before: list[Told], after: list[Told]) -> list[Row]:
    old, new = newest_version(before), newest_version(after)
    rows = []
    for key in old.keys() | new.keys():
        was = old[key]["combined"] if key in old else ""
        is_ = new[key]["combined"] if key in new else ""
        if was != is_:
            change = "changed"
            if not was:
                change = "added"
            elif not is_:
                change = "removed"
            elif is_ == "fail":
                change = "broken"
            elif is_ == "pass" and was in ("fail", "known"):
                change = "fixed"
            rows.append(
                dict(zip(("subject", "guarantee", "spec", "requirement"), key, strict=True))
                | {
                    "change": change,
                    "before": was,
                    "after": is_,
                    "version_before": old[key]["version"] if key in old else "",
                    "version_after": new[key]["version"] if key in new else "",
                }
            )
    return rows


def flaky(told: list[Told]) -> list[Row]:
    rows = []
    for key, group in grouped(answers(told), lambda one: (*one.who, one.requirement)).items():
        held = [one for one in group if one.status == "pass"]
        broken = [one for one in group if one.status in ("fail", "known")]
        if held and broken:
            good, bad = (max(each, key=lambda one: one.told.age) for each in (held, broken))
            names = ("subject", "version", "guarantee", "spec", "requirement")
            rows.append(
                dict(zip(names, key, strict=True))
                | {
                    "held": len(held),
                    "broken": len(broken),
                    "held_run": good.header.run_id,
                    "broken_run": bad.header.run_id,
                    "held_seed": good.header.seed,
                    "broken_seed": bad.header.seed,
                }
            )
    return rows


def situations(told: list[Told]) -> list[Row]:
    hits: Counter[tuple[str, str]] = Counter()
    runs = defaultdict(set)
    for each in told:
        for check in each.log.checks:
            for name, count in check.situations.items():
                hits[check.subject, name] += count
                runs[check.subject, name].add(each.path)
    return [
        {"subject": key[0], "situation": key[1], "runs": len(runs[key]), "hits": count}
        for key, count in hits.items()
    ]


def failures(told: list[Told]) -> list[Row]:
    return [
        {
            "path": each.path,
            "started_at": each.log.header.started_at,
            "guarantee": each.log.header.guarantee,
            "spec": each.log.header.spec,
            "version": next(i.version for i in each.log.header.subjects if i.name == one.subject),
            "subject": one.subject,
            "requirement": one.requirement,
            "shape": one.shape,
            "check": one.check,
            "program": one.program,
            "known_because": one.known,
        }
        for each in told
        for one in each.log.failures
    ]


def requirements(told: list[Told]) -> list[Row]:
    found: dict[str, Mapping[str, Any]] = {}
    for each in sorted(told, key=lambda one: one.age):
        first: dict[str, RequirementResult] = {}
        for one in each.log.results:
            first.setdefault(one.requirement, one)
        for requirement, one in first.items():
            found[requirement] = {
                "requirement": requirement,
                "title": one.title,
                "promise": one.promise,
                "checks": ", ".join(one.checks),
                "core": one.core,
            }
    return [dict(each) for each in found.values()]
