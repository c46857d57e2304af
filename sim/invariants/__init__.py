"""The invariants of every run, as small classes that observe its events."""

from streamproof.sim.invariants.append_order import AppendsKeepTheirOrder
from streamproof.sim.invariants.assignments import (
    CopiesAreApart,
    EachTaskIsSharedOutOnce,
    EndsAreThoseOfTheLogs,
    GroupLooksAgain,
    MembersAgreeOnAVersion,
    MembersReportWhatTheyHave,
    StandbysAreAsManyAsAsked,
    WarmUpsAreBounded,
    WorkGoesWhereTheStateIs,
    WorkIsEven,
)
from streamproof.sim.invariants.commits import (
    AppliedRecordsAreCommitted,
    CommitsCarryEverything,
    StagedWritesAreBounded,
)
from streamproof.sim.invariants.contents import (
    ClosedStoreEqualsChangelog,
    CommittedOffsetIsInTheLog,
    FoundStoreIsVouchedFor,
    RunningStoreEqualsChangelog,
)
from streamproof.sim.invariants.deadlines import WaitsOfTasksEnd
from streamproof.sim.invariants.delivered_output import OutputIsInItsTopic
from streamproof.sim.invariants.delivery import (
    CommitEndsTheTransaction,
    CommittedInputIsLogged,
    CommittedInputWasProcessed,
    EachInputCountsOnce,
)
from streamproof.sim.invariants.global_stores import (
    GlobalStoresEqualTheirTopics,
    GlobalStoresStartOver,
    ProcessesGetTheirGlobalStores,
)
from streamproof.sim.invariants.heard_restorations import (
    BatchesAreHeardAsApplied,
    EndsAreHeardWhenNothingIsLeft,
)
from streamproof.sim.invariants.invariant import (
    Invariant,
    InvariantError,
    InvariantViolation,
    Watch,
)
from streamproof.sim.invariants.kept_stores import (
    NoErrorWipesWhatIsStaged,
    StoreResumesFromItsOffset,
    WhatIsUncleanIsNotKept,
)
from streamproof.sim.invariants.liveness import (
    EveryTaskRuns,
    EveryThreadTakesPart,
    NothingIsWipedWithoutNeed,
    UncommittedBytesAreBounded,
)
from streamproof.sim.invariants.measurements import (
    OneRatioIsZero,
    RestoreCallsAreCounted,
    RestoredIsCounted,
    RunningTasksAreMeasured,
    StoreCommitsAreMeasured,
    TasksAreCounted,
    TimeIsSharedOut,
    UpdatedIsCounted,
    UpdaterIsAnotherThread,
)
from streamproof.sim.invariants.membership import (
    CorruptedTasksAreOffered,
    HangingMembersLeave,
    MembersAreNotForgotten,
    MembersLeaveAsAsked,
    StaticMembersComeBack,
)
from streamproof.sim.invariants.metadata_versions import (
    EmptyAnswerIsForTheTooNew,
    FormatsAreThoseOnTheDisk,
    MirrorsAreAnsweredInTheirVersion,
    VersionIsThatOfTheRelease,
)
from streamproof.sim.invariants.open_transactions import (
    EachTransactionHasItsEpoch,
    EveryWriteIsInATransaction,
    NoRecordHangs,
)
from streamproof.sim.invariants.ordering import (
    LeastTimestampFirst,
    WaitsForTheRestOfABurst,
    WaitsForWhatIsThere,
    WaitsForWhatWasThere,
)
from streamproof.sim.invariants.output import OutputIsThatOfARunWithoutFaults
from streamproof.sim.invariants.ownership import (
    AssignedTasksAreKept,
    LostTasksAreGivenUp,
    OneHolderInAProcess,
    OneOwnerInAGeneration,
    OwnersFollowEachOther,
    RestoringIsPaired,
)
from streamproof.sim.invariants.pauses import PausedInstancesDoNothing
from streamproof.sim.invariants.positions import PositionIsNotAhead
from streamproof.sim.invariants.punctuated_writes import PunctuatedWritesHaveTheirTime
from streamproof.sim.invariants.punctuation_schedules import PunctuationsKeepTheirSchedule
from streamproof.sim.invariants.queries import QUERY_INVARIANTS
from streamproof.sim.invariants.refused_outputs import HandlersDecideOnOutputs
from streamproof.sim.invariants.refused_records import (
    DeadLettersAreComplete,
    OnlyRefusedRecordsAreDropped,
)
from streamproof.sim.invariants.reports import (
    OpenTasksAreReported,
    WhatAnyThreadClosedIsReported,
    WhatIsOnTheDiskIsReported,
)
from streamproof.sim.invariants.resets import (
    GonePositionsStartOver,
    InputsAreReadOn,
    ResetsAreNeeded,
)
from streamproof.sim.invariants.restoring_tasks import RestoringTasksAreClosedCleanly
from streamproof.sim.invariants.roll_over import (
    CopiesTakeOverWhenReady,
    MirrorsOnlyCopy,
    ReadyCopiesAreComplete,
)
from streamproof.sim.invariants.state_directories import (
    HotDirectoryIsKept,
    NothingIsCleanedWhileRestoring,
    NothingIsLeftInUse,
    OutdatedDirectoriesAreDeleted,
)
from streamproof.sim.invariants.store_formats import (
    LiveFormatIsThatOfTheAssignment,
    OlderFormatIsDeletedInTime,
    OnlyAnUpgradeInPlaceBuilds,
    PreparedStoresAreBuilt,
)
from streamproof.sim.invariants.stream_time import StreamTimeIsThatOfRecords
from streamproof.sim.invariants.streams_groups import (
    OffsetsAreRefusedForLostTasks,
    TargetsHaveEachTaskOnce,
    TargetsHaveTheirCopies,
    TasksAreReleasedFirst,
)
from streamproof.sim.invariants.table_timestamps import (
    AggregatesHaveTheLatestTime,
    DerivedRowsKeepTheirTime,
    JoinedRowsHaveTheLaterTime,
    RestoredRowsHaveTheirTimes,
    SourceRowsHaveTheTimeOfTheirRecord,
)
from streamproof.sim.invariants.upgrades import ClosedStoreKeepsItsOffset
from streamproof.sim.invariants.visibility import (
    MetricsAddUp,
    PurgedWasCommitted,
    StandbyIsNotAhead,
    StandbyKeepsUp,
    UpdatingIsPaired,
)
from streamproof.sim.invariants.waiting import LagIsThatOfTheLog

__all__ = ["INVARIANTS", "Invariant", "InvariantError", "InvariantViolation", "Watch"]

INVARIANTS: tuple[type[Invariant], ...] = (
    RunningStoreEqualsChangelog,
    ClosedStoreEqualsChangelog,
    FoundStoreIsVouchedFor,
    CommittedOffsetIsInTheLog,
    # A process that cannot start is the cause of all that it does not do.
    ProcessesGetTheirGlobalStores,
    CommittedInputWasProcessed,
    EachInputCountsOnce,
    CommitEndsTheTransaction,
    CommittedInputIsLogged,
    OutputIsThatOfARunWithoutFaults,
    OneOwnerInAGeneration,
    OwnersFollowEachOther,
    OneHolderInAProcess,
    AssignedTasksAreKept,
    LostTasksAreGivenUp,
    RestoringTasksAreClosedCleanly,
    RestoringIsPaired,
    UpdatingIsPaired,
    MetricsAddUp,
    TimeIsSharedOut,
    OneRatioIsZero,
    TasksAreCounted,
    RestoreCallsAreCounted,
    RestoredIsCounted,
    UpdatedIsCounted,
    UpdaterIsAnotherThread,
    StoreCommitsAreMeasured,
    RunningTasksAreMeasured,
    StandbyIsNotAhead,
    StandbyKeepsUp,
    PurgedWasCommitted,
    LeastTimestampFirst,
    WaitsForWhatIsThere,
    WaitsForTheRestOfABurst,
    WaitsForWhatWasThere,
    LagIsThatOfTheLog,
    EveryTaskRuns,
    EveryThreadTakesPart,
    NothingIsWipedWithoutNeed,
    UncommittedBytesAreBounded,
    StagedWritesAreBounded,
    CommitsCarryEverything,
    AppliedRecordsAreCommitted,
    PausedInstancesDoNothing,
    NothingIsLeftInUse,
    HotDirectoryIsKept,
    EachTaskIsSharedOutOnce,
    CopiesAreApart,
    StandbysAreAsManyAsAsked,
    WorkGoesWhereTheStateIs,
    EndsAreThoseOfTheLogs,
    WarmUpsAreBounded,
    WorkIsEven,
    MembersReportWhatTheyHave,
    WhatIsOnTheDiskIsReported,
    OpenTasksAreReported,
    WhatAnyThreadClosedIsReported,
    GroupLooksAgain,
    MembersAgreeOnAVersion,
    ClosedStoreKeepsItsOffset,
    MirrorsOnlyCopy,
    PositionIsNotAhead,
    *QUERY_INVARIANTS,
    StoreResumesFromItsOffset,
    WhatIsUncleanIsNotKept,
    NoErrorWipesWhatIsStaged,
    VersionIsThatOfTheRelease,
    FormatsAreThoseOnTheDisk,
    EmptyAnswerIsForTheTooNew,
    MirrorsAreAnsweredInTheirVersion,
    LiveFormatIsThatOfTheAssignment,
    OlderFormatIsDeletedInTime,
    PreparedStoresAreBuilt,
    OnlyAnUpgradeInPlaceBuilds,
    ReadyCopiesAreComplete,
    CopiesTakeOverWhenReady,
    SourceRowsHaveTheTimeOfTheirRecord,
    DerivedRowsKeepTheirTime,
    JoinedRowsHaveTheLaterTime,
    AggregatesHaveTheLatestTime,
    RestoredRowsHaveTheirTimes,
    MembersLeaveAsAsked,
    MembersAreNotForgotten,
    StaticMembersComeBack,
    HangingMembersLeave,
    CorruptedTasksAreOffered,
    WaitsOfTasksEnd,
    ResetsAreNeeded,
    InputsAreReadOn,
    GonePositionsStartOver,
    OutdatedDirectoriesAreDeleted,
    NothingIsCleanedWhileRestoring,
    GlobalStoresEqualTheirTopics,
    GlobalStoresStartOver,
    EveryWriteIsInATransaction,
    NoRecordHangs,
    EachTransactionHasItsEpoch,
    OnlyRefusedRecordsAreDropped,
    DeadLettersAreComplete,
    HandlersDecideOnOutputs,
    BatchesAreHeardAsApplied,
    EndsAreHeardWhenNothingIsLeft,
    StreamTimeIsThatOfRecords,
    PunctuationsKeepTheirSchedule,
    PunctuatedWritesHaveTheirTime,
    AppendsKeepTheirOrder,
    TargetsHaveEachTaskOnce,
    TargetsHaveTheirCopies,
    TasksAreReleasedFirst,
    OffsetsAreRefusedForLostTasks,
    OutputIsInItsTopic,
)
"""All invariants."""
