"""A decision as offsets of groups, and back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.client.txn_session import Prepared
from ledgerstone.spark.decision import (
    BatchDecision,
    WriteId,
    count_of_parts,
    deciding_id,
    decision_group,
    decoded,
    encoded,
    transactional_id,
)
from ledgerstone.spark.errors import WriteFailed

MAX_METADATA = 4_096


@given(
    st.integers(0, 2**40),
    st.dictionaries(
        st.integers(0, 5_000),
        st.tuples(st.integers(0, 2**62), st.integers(0, 32_767)),
        max_size=400,
    ),
)
def test_decision_is_read_as_it_was_written(
    batch_id: int, producers: dict[int, tuple[int, int]]
) -> None:
    prepared = {
        task: Prepared(transactional_id("q", task), *each) for task, each in producers.items()
    }

    parts = encoded(BatchDecision(batch_id=batch_id, prepared=prepared))

    assert all(len(each.metadata or "") <= MAX_METADATA for each in parts)
    assert count_of_parts(parts[0]) == len(parts)
    assert decoded("q", parts) == BatchDecision(batch_id=batch_id, prepared=prepared)


def test_parts_of_two_decisions_are_not_mixed() -> None:
    many = {task: Prepared(transactional_id("q", task), 10**15, 3) for task in range(400)}
    first, second = (encoded(BatchDecision(batch_id=n, prepared=many)) for n in (1, 2))
    assert len(first) > 1

    with pytest.raises(WriteFailed, match="several batches"):
        decoded("q", [first[0], *second[1:]])


def test_names_are_of_one_task_or_of_the_driver() -> None:
    tasks = [WriteId("q", 1, task) for task in range(3)]

    ids = [each.transactional_id for each in tasks] + [deciding_id("q")]
    groups = [each.group_id for each in tasks] + [decision_group("q"), decision_group("q", 1)]
    assert len({*ids}) == len(ids)
    assert len({*groups}) == len(groups)
