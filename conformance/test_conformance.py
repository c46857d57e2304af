"""Collected by ``pytest --pyargs streamproof.conformance --subject module:factory``."""

from __future__ import annotations

from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.settings import Settings
from streamproof.conformance.single_requirement import Verifier, assert_kept


def test_requirement(
    streamproof_subject: str,
    requirement: Requirement,
    streamproof_settings: Settings,
    streamproof_verifier: Verifier,
) -> None:
    """The subject keeps the requirement."""
    assert_kept(streamproof_verifier, streamproof_subject, streamproof_settings, requirement)
