"""Inner runs of pytest have another home directory; the compiled kernels stay in the real one."""

from collections.abc import Iterator

import pytest

from ledgerstone.records.kernels.cache import cache_directory


@pytest.fixture(scope="session", autouse=True)
def _kernels_stay_compiled() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERSTONE_CACHE_DIR", str(cache_directory()))
        yield
