"""Fixtures for the tests of the stores; every random choice is the same in each run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from streamproof.stores.api import (
    AT_LEAST_ONCE,
    EXACTLY_ONCE,
    PROCESSING_GUARANTEE_CONFIG,
    StateStoreContext,
)

settings.register_profile(
    "stores",
    derandomize=True,
    deadline=None,
    database=None,
    # Every example takes a fresh directory below the fixture's, so sharing it is harmless.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def make_context(tmp_path: Path) -> Callable[..., StateStoreContext]:
    """Makes a context for the same task directory, as a restart would."""

    def make(*, exactly_once: bool = True, **configs: object) -> StateStoreContext:
        guarantee = EXACTLY_ONCE if exactly_once else AT_LEAST_ONCE
        return StateStoreContext(
            state_dir=tmp_path / "0_0",
            app_configs={PROCESSING_GUARANTEE_CONFIG: guarantee, **configs},
        )

    return make
