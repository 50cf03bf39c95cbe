"""What every test shares: Hypothesis settings under which the same commit gives the same run."""

import os

from hypothesis import settings

# No clock decides about a failure, and no directory of earlier examples changes a run.
settings.register_profile(
    "repeatable", max_examples=100, deadline=None, derandomize=True, database=None
)
# For looking further than the suite does: HYPOTHESIS_PROFILE=explore make test
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))
