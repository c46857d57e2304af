"""The suite in the pytest of a store's own project.

Write one class in a test module::

    from streamproof import StateStoreConformance

    class TestMyStore(StateStoreConformance):
        subject = "mypackage.stores:make_store"

Each requirement becomes a test that is named by its id. The fixture ``streamproof_verifier``
verifies a single requirement in a test of your own.
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
        subject: the store: ``module:factory``, ``path/to/file.py:factory``, or a built-in name.
        guarantee: the processing guarantee under which the store runs.
        spec: the proposals as accepted, or as a Kafka release shipped them.
        profile: how much to try: ``smoke`` takes seconds, ``quick`` a minute, ``full`` many.
        seed: fixes every random decision, so that a test run can be repeated.
    """

    subject: ClassVar[str]
    guarantee: ClassVar[Guarantee] = "exactly-once"
    spec: ClassVar[Spec] = "kips"
    profile: ClassVar[Profile] = "quick"
    seed: ClassVar[int] = 0

    @classmethod
    def settings(cls) -> Settings:
        """The settings of every check, from the attributes of the class."""
        return Settings(guarantee=cls.guarantee, spec=cls.spec, profile=cls.profile, seed=cls.seed)

    def test_requirement(self, requirement: Requirement, streamproof_verifier: Verifier) -> None:
        """Pass if the store keeps the requirement; skip, with the reason, if it cannot be tried."""
        assert_kept(streamproof_verifier, self.subject, self.settings(), requirement)
