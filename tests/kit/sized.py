"""Properties in sizes: few examples in the default suite, many in `make crash`."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from hypothesis import given, settings

# What a property gets that does not say how many; in the profile `thorough`, every one gets what
# it says. The other profiles give more or less in proportion.
THOROUGH: Final = 60
FEWEST: Final = 5


def examples(count: int) -> settings:
    """The share of so many examples that the chosen profile plays; see tests/conftest.py."""
    share = count * settings().max_examples // THOROUGH
    return settings(max_examples=max(min(count, FEWEST), share))


def sized(
    *, few: int, many: int, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Like `given` with keywords; the second size is marked `slow`, and no profile changes it."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("count", [few, pytest.param(many, marks=pytest.mark.slow)])
        def test(count: int) -> None:
            chosen = examples(count) if count == few else settings(max_examples=count)
            chosen(given(**strategies)(check))()

        return test

    return decorate
