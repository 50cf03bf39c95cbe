"""The checksum is what the documentation says, and sums do not lose their carries."""

import re
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.records.builder import build_batch
from ledgerstone.records.kernels import Hashes
from ledgerstone.state.content import checksum_text, sum_of
from ledgerstone.state.fold import Fold
from tests.kit.sized import examples
from tests.unit.state.model import SEED, plain_checksum

DOCUMENT = Path(__file__).parents[3] / "docs" / "state.md"


def documented() -> dict[str, Any]:
    (program,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {}
    exec(program, names)
    return names


@examples(50)
@given(st.dictionaries(st.binary(max_size=200), st.binary(max_size=200), min_size=1, max_size=8))
def test_program_in_the_documentation_computes_what_a_fold_does(live: dict[bytes, bytes]) -> None:
    fold = Fold(seed=SEED)

    fold.feed(build_batch([(1, key, value, ()) for key, value in live.items()]))

    assert checksum_text(fold.checksum) == documented()["checksum"](live)
    assert fold.checksum == plain_checksum(live)


def test_example_in_the_documentation_is_right() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")

    (call, said) = re.findall(r"^`checksum\((.*?)\)` is `(\w+)`", text, re.MULTILINE)[0]

    assert documented()["checksum"](eval(call)) == said


@examples(100)
@given(st.lists(st.tuples(*[st.integers(2**64 - 9, 2**64 - 1) | st.integers(0, 9)] * 2)))
def test_sum_carries_from_word_to_word(words: list[tuple[int, int]]) -> None:
    low, high = (np.array([each[at] for each in words], np.uint64) for at in (0, 1))

    assert sum_of(Hashes(low, high)) == sum(a + (b << 64) for a, b in words) % 2**128
