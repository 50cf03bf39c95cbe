"""Properties in two sizes: few examples in the default suite, many among the slow tests."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings


def sized(
    *, few: int, many: int, **strategies: Any
) -> Callable[[Callable[..., None]], Callable[[int], None]]:
    """Like `given` with keywords; the second size is marked `slow`."""

    def decorate(check: Callable[..., None]) -> Callable[[int], None]:
        @pytest.mark.parametrize("examples", [few, pytest.param(many, marks=pytest.mark.slow)])
        def test(examples: int) -> None:
            settings(max_examples=examples, deadline=None)(given(**strategies)(check))()

        return test

    return decorate
