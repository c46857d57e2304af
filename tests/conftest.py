"""What all tests share: how Hypothesis works here."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Examples open real stores and start processes: how long one takes says nothing.
settings.register_profile("default", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# The same examples on every run and every machine, so that red means that the change is to blame.
settings.register_profile(
    "ci", settings.get_profile("default"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("default")
