"""The parts of the broker's benchmark that could be wrong without looking wrong."""

import os
import time

import pytest

from bench.broker_process import cpu_seconds
from bench.raw_client import count_frames
from bench.table import at_most

SIZES = (0, 1, 5, 300)
STREAM = b"".join(size.to_bytes(4, "big") + bytes(size) for size in SIZES)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100, len(STREAM)])
def test_frames_are_counted_however_the_stream_is_cut(step: int) -> None:
    found, left, head = 0, 0, b""

    for start in range(0, len(STREAM), step):
        done, left, head = count_frames(memoryview(STREAM)[start : start + step], left, head)
        found += done

    assert (found, left, head) == (len(SIZES), 0, b"")


def test_a_frame_that_is_cut_short_is_not_counted() -> None:
    done, left, head = count_frames(memoryview(STREAM)[:-10], 0, b"")

    assert (done, left, head) == (len(SIZES) - 1, 10, b"")


def test_cpu_time_of_a_process_is_what_it_says_of_itself() -> None:
    before = time.process_time()
    asked = cpu_seconds(os.getpid())
    after = time.process_time()

    assert before <= asked <= after


def test_a_figure_above_its_limit_is_below_target() -> None:
    assert at_most("start", "s", 0.5, 1.0).verdict == "ok"
    assert at_most("start", "s", 1.5, 1.0).verdict == "below"
