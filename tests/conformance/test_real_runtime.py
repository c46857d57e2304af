"""Kafka Streams itself as a subject: what is asked of it, and how it is named."""

from __future__ import annotations

import pytest

from streamproof.conformance.catalogue import requirements_that_bind
from streamproof.conformance.check_loader import checks_for
from streamproof.conformance.real_runtime_checks.real_world_checks import right_variants
from streamproof.conformance.subject import binds_of, load_subject, release_of_runtime
from streamproof.errors import UsageError
from streamproof.reports.verification import require_one_kind
from streamproof.stores.jvm.kafka_jars import DEFAULT_RELEASE


@pytest.mark.parametrize(
    ("name", "release"), [("runtime:kafka", DEFAULT_RELEASE), ("runtime:kafka@4.2.0", "4.2.0")]
)
def test_the_release_is_in_the_name(name: str, release: str) -> None:
    assert binds_of(name) == "real-runtime"
    assert release_of_runtime(name) == release
    assert load_subject(name).info().version == release


@pytest.mark.parametrize("name", ["runtime:kafka@", "runtime:kafka@new", "runtime:kafka@3.1.0"])
def test_a_release_that_is_none(name: str) -> None:
    with pytest.raises(UsageError):
        load_subject(name)


def test_kafka_is_asked_for_what_binds_the_runtime() -> None:
    asked = requirements_that_bind("real-runtime")

    assert [each.id for each in asked] == [each.id for each in requirements_that_bind("runtime")]


def test_each_requirement_is_put_to_kafka_or_says_why_not() -> None:
    asked = requirements_that_bind("real-runtime")
    tried = [each for each in asked if each.checks]
    others = [each for each in asked if not each.checks]
    check = checks_for("runtime:kafka")["real_world.plays"]

    assert {tuple(each.checks) for each in tried} == {("real_world.plays",)}
    assert all("not tried" in each.untested for each in others)
    assert len(tried) > 60
    assert {each.id for each in tried} == set(check.requirements)


def test_nothing_that_may_stay_untried_counts_for_the_verdict() -> None:
    assert not any(each.core for each in requirements_that_bind("real-runtime"))


def test_kafka_stands_beside_the_simulated_runtime() -> None:
    names = ["runtime", "runtime:kafka@4.3.1", "runtime:kafka@4.2.0"]

    assert require_one_kind(names, "exactly-once") == "runtime"


def test_kafka_does_not_stand_beside_a_store() -> None:
    with pytest.raises(UsageError, match="one by one"):
        require_one_kind(["runtime:kafka", "rocksdb"], "exactly-once")


def test_the_library_has_right_variants_for_each_guarantee() -> None:
    strict = list(right_variants(DEFAULT_RELEASE, exactly_once=True))
    loose = list(right_variants(DEFAULT_RELEASE, exactly_once=False))

    assert len(strict) >= 5
    assert not any(setup.variant.breaks for _, setup in [*strict, *loose])
    assert {setup.plan.config.exactly_once for _, setup in strict} == {True}
    assert {setup.plan.config.exactly_once for _, setup in loose} <= {False}
