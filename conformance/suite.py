"""The suite inside your own tests: a base class for pytest that runs the same checks.

Write one class in a test module::

    from streamproof.conformance.suite import StateStoreConformance

    class TestMyStore(StateStoreConformance):
        subject = "mypackage.stores:make_store"

Each applicable requirement becomes a test, named by its id.
"""

from __future__ import annotations

from typing import ClassVar

from streamproof.conformance.catalogue import Requirement
from streamproof.conformance.results import Guarantee, Profile, Spec
from streamproof.conformance.settings import Settings
from streamproof.conformance.single_requirement import Verifier, assert_kept

__all__ = ["StateStoreConformance"]


class StateStoreConformance:
    """Subclass it, name the subject, and pytest runs the suite against it.

    Attributes:
        subject: ``module:factory``, ``path/to/file.py:factory``, or a built-in name.
        guarantee: the processing guarantee.
        spec: the proposals as accepted, or what a Kafka release shipped of them.
        profile: how much to try.
        seed: determines every random decision.
    """

    subject: ClassVar[str]
    guarantee: ClassVar[Guarantee] = "exactly-once"
    spec: ClassVar[Spec] = "kips"
    profile: ClassVar[Profile] = "quick"
    seed: ClassVar[int] = 0

    @classmethod
    def settings(cls) -> Settings:
        """The settings that the class asks for."""
        return Settings(guarantee=cls.guarantee, spec=cls.spec, profile=cls.profile, seed=cls.seed)

    def test_requirement(self, requirement: Requirement, streamproof_verifier: Verifier) -> None:
        """One requirement: passes if it is kept, skips with the reason if it cannot be tried."""
        assert_kept(streamproof_verifier, self.subject, self.settings(), requirement)
