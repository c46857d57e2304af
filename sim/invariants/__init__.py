"""The invariants of every run, as small classes that observe its events."""

from streamproof.sim.invariants.assignments import (
    CopiesAreApart,
    EachTaskIsSharedOutOnce,
    GroupLooksAgain,
    MembersAgreeOnAVersion,
    MembersReportWhatTheyHave,
    StandbysAreAsManyAsAsked,
    WarmUpsAreBounded,
    WorkGoesWhereTheStateIs,
    WorkIsEven,
)
from streamproof.sim.invariants.contents import (
    ClosedStoreEqualsChangelog,
    CommittedOffsetIsInTheLog,
    FoundStoreIsVouchedFor,
    RunningStoreEqualsChangelog,
)
from streamproof.sim.invariants.delivery import (
    CommitEndsTheTransaction,
    CommittedInputIsLogged,
    CommittedInputWasProcessed,
    EachInputCountsOnce,
)
from streamproof.sim.invariants.invariant import (
    Invariant,
    InvariantError,
    InvariantViolation,
    Watch,
)
from streamproof.sim.invariants.liveness import (
    EveryTaskRuns,
    EveryThreadTakesPart,
    NothingIsWipedWithoutNeed,
    UncommittedBytesAreBounded,
)
from streamproof.sim.invariants.ordering import LeastTimestampFirst, WaitsForWhatIsThere
from streamproof.sim.invariants.output import OutputIsThatOfARunWithoutFaults
from streamproof.sim.invariants.ownership import (
    AssignedTasksAreKept,
    OneHolderInAProcess,
    OneOwnerInAGeneration,
    OwnersFollowEachOther,
    RestoringIsPaired,
)
from streamproof.sim.invariants.positions import PositionIsNotAhead
from streamproof.sim.invariants.state_directories import HotDirectoryIsKept, NothingIsLeftInUse
from streamproof.sim.invariants.upgrades import ClosedStoreKeepsItsOffset, MirrorsOnlyCopy
from streamproof.sim.invariants.visibility import (
    MetricsAddUp,
    PurgedWasCommitted,
    StandbyIsNotAhead,
    UpdatingIsPaired,
)

__all__ = ["INVARIANTS", "Invariant", "InvariantError", "InvariantViolation", "Watch"]

INVARIANTS: tuple[type[Invariant], ...] = (
    RunningStoreEqualsChangelog,
    ClosedStoreEqualsChangelog,
    FoundStoreIsVouchedFor,
    CommittedOffsetIsInTheLog,
    CommittedInputWasProcessed,
    EachInputCountsOnce,
    CommitEndsTheTransaction,
    CommittedInputIsLogged,
    OutputIsThatOfARunWithoutFaults,
    OneOwnerInAGeneration,
    OwnersFollowEachOther,
    OneHolderInAProcess,
    AssignedTasksAreKept,
    RestoringIsPaired,
    UpdatingIsPaired,
    MetricsAddUp,
    StandbyIsNotAhead,
    PurgedWasCommitted,
    LeastTimestampFirst,
    WaitsForWhatIsThere,
    EveryTaskRuns,
    EveryThreadTakesPart,
    NothingIsWipedWithoutNeed,
    UncommittedBytesAreBounded,
    NothingIsLeftInUse,
    HotDirectoryIsKept,
    EachTaskIsSharedOutOnce,
    CopiesAreApart,
    StandbysAreAsManyAsAsked,
    WorkGoesWhereTheStateIs,
    WarmUpsAreBounded,
    WorkIsEven,
    MembersReportWhatTheyHave,
    GroupLooksAgain,
    MembersAgreeOnAVersion,
    ClosedStoreKeepsItsOffset,
    MirrorsOnlyCopy,
    PositionIsNotAhead,
)
"""All invariants."""
