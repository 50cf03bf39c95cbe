"""What Spark says, and what it leaves unsaid, in one line."""

import subprocess
import sys

import pytest

from ledgerstone.spark.errors import DataLoss
from ledgerstone.spark.failures import SparkFailed, failure_of, jvm_end, spark_said


def test_our_words_are_found_in_what_spark_makes_of_them() -> None:
    text = """[STREAM_FAILED] Query terminated with exception: Error from Python worker:
Traceback (most recent call last):
  File "x.py", line 1, in <module>
ledgerstone.spark.errors.DataLoss: people-0 begins at 9, but was read up to 3
=== Streaming Query ===
Identifier: people
"""

    assert spark_said(text) == "DataLoss: people-0 begins at 9, but was read up to 3"
    assert spark_said("[STREAM_FAILED] Nothing of ours\nIdentifier: x") == (
        "[STREAM_FAILED] Nothing of ours"
    )


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Job aborted\nPython worker exited unexpectedly (crashed)\n", "a Python worker of Spark"),
        ("x\nCaused by: java.lang.OutOfMemoryError: Java heap space", "spark.driver.memory: 2g"),
        ("Job aborted\nExecutorLostFailure (executor 1 exited)", "an executor of Spark was lost"),
        ("Job aborted\nCaused by: java.io.IOException: Stream closed", "a Python worker of Spark"),
        (
            "An error occurred while calling o1.x.\n: a.B: first\n\tat x\nCaused by: c.D: last",
            "c.D",
        ),
        ("", "no reason was given"),
    ],
)
def test_deaths_that_spark_knows_of_are_named(text: str, meaning: str) -> None:
    said = spark_said(text)

    assert meaning in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("program", "meaning"),
    [
        ("import sys; sys.exit(3)", "ran out of memory (spark.driver.memory is 1g)"),
        ("import sys; sys.exit(52)", "ran out of memory (spark.driver.memory is 1g)"),
        ("import os; os.kill(os.getpid(), 9)", "was killed (SIGKILL)"),
        ("import sys; sys.exit(7)", "ended with code 7"),
    ],
)
def test_how_a_jvm_ended_is_told(program: str, meaning: str) -> None:
    with subprocess.Popen([sys.executable, "-c", program]) as process:
        said = jvm_end(process, "1g")

    assert meaning in (said or "")


def test_an_error_of_ours_stays_what_it_is() -> None:
    ours = DataLoss("gone")

    assert failure_of(ours) is ours
    assert isinstance(failure_of(ValueError("x\ny")), SparkFailed)
    assert str(failure_of(ValueError("x\ny"))) == "x"
