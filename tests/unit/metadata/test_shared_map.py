"""Versions of a large map share what did not change, and behave as dicts do."""

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.metadata.shared_map import SMALL, MapDraft, SharedMap
from tests.kit.sized import examples

_ops = st.lists(st.tuples(st.booleans(), st.integers(0, 2 * SMALL), st.integers(0, 9)), max_size=40)


def _changed(
    before: Mapping[int, int], model: dict[int, int], ops: list[tuple[bool, int, int]]
) -> tuple[Mapping[int, int], dict[int, int]]:
    draft, model = MapDraft(before), dict(model)
    for is_put, key, value in ops:
        if is_put:
            draft.put(key, value)
            model[key] = value
        elif key in model:
            draft.remove(key)
            del model[key]
        assert draft.get(key) == model.get(key)
        assert (key in draft) == (key in model)
    return draft.finish(), model


@examples(100)
@given(size=st.integers(SMALL - 3, 3 * SMALL), batches=st.lists(_ops, max_size=8))
def test_versions_are_what_dicts_would_be_in_content_and_order(
    size: int, batches: list[list[tuple[bool, int, int]]]
) -> None:
    current: Mapping[int, int] = dict.fromkeys(range(size), -1)
    model = dict(current)
    versions = []
    for ops in batches:
        current, model = _changed(current, model, ops)
        versions.append((current, model))

    for version, expected in versions:
        assert list(version.items()) == list(expected.items())
        assert len(version) == len(expected)
        assert version == expected


def test_one_change_of_a_large_map_copies_no_base() -> None:
    large = {key: key for key in range(10_000)}
    draft = MapDraft[int, int](large)
    draft.put(3, 33)

    changed = draft.finish()

    assert isinstance(changed, SharedMap)
    assert changed._base is large
    assert (changed[3], large[3]) == (33, 3)


def test_layer_is_merged_before_it_makes_changes_expensive() -> None:
    current: Mapping[int, int] = {key: key for key in range(10_000)}
    bases = set()
    for number in range(1000):
        draft = MapDraft(current)
        draft.put(number, -number)
        current = draft.finish()
        assert isinstance(current, SharedMap)
        assert len(current._over) <= 200
        bases.add(id(current._base))

    assert len(bases) > 1
    assert current[999] == -999


def test_nothing_touched_is_the_same_map() -> None:
    before = {1: 1}

    assert MapDraft(before).finish() is before
