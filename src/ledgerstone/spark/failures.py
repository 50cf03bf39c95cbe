"""Reduces Spark's failures from hundreds of lines to one. Shell.

It searches Spark's text for our own messages. A JVM or a worker that died has no message, so it
reports how the process ended. The rest of Spark's output goes to the session's log.
"""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from subprocess import Popen, TimeoutExpired
from typing import Any, Final

from ledgerstone.errors import LedgerstoneError

MAX_CHARACTERS: Final = 2000
# The last line of a Python traceback inside Spark's text of hundreds of lines.
_OUR_ERROR: Final = re.compile(r"^\s*ledgerstone\.[\w.]*\.([A-Z]\w+): (.+)$", re.MULTILINE)
# The first line of a failed call to the JVM only says that it failed.
_EMPTY_WORDS: Final = "An error occurred while calling"
_CAUSE: Final = re.compile(r"^(?:Caused by)?: (\S.+)$", re.MULTILINE)
# A connection breaks shortly before its process ends.
_END_TIMEOUT_S: Final = 5.0
# The exit codes of -XX:+ExitOnOutOfMemoryError, and of Spark where it notices first.
_OUT_OF_MEMORY: Final = (3, 52)
_MORE_MEMORY: Final = (
    "give it more, as in `spark.driver.memory: 2g` (in a definition under `spark`, or with "
    "--conf spark.driver.memory=2g), or let a micro-batch take less (source.max_bytes_per_batch)"
)
# Known causes of some of Spark's messages.
_WORKER_DIED: Final = (
    "a Python worker of Spark died; if nobody killed it, the machine was out of memory"
)
_KNOWN: Final = (
    ("Python worker exited unexpectedly", _WORKER_DIED),
    # The daemon that workers are forked from, asked for another one.
    ("java.io.IOException: Stream closed", _WORKER_DIED),
    ("ExecutorLostFailure", "an executor of Spark was lost, and the task with it, too often"),
    ("java.lang.OutOfMemoryError", f"Spark ran out of memory: {_MORE_MEMORY}"),
    (
        "is bigger than spark.driver.maxResultSize",
        "a result is larger than spark.driver.maxResultSize allows",
    ),
    ("JAVA_GATEWAY_EXITED", "Spark's JVM did not start; `spark` settings or Java may be wrong"),
)


class SparkFailed(LedgerstoneError):
    """Spark failed; the message is one line."""


def spark_said(text: str) -> str:
    """The line that matters in Spark's text."""
    ours = [f"{kind}: {message}" for kind, message in _OUR_ERROR.findall(text)]
    if ours:
        return ours[-1][:MAX_CHARACTERS]
    for sign, meaning in _KNOWN:
        if sign in text:
            return meaning
    lines = text.strip().splitlines() or ["no reason was given"]
    causes = _CAUSE.findall(text) if lines[0].startswith(_EMPTY_WORDS) else []
    return (causes[-1] if causes else lines[0])[:MAX_CHARACTERS]


def jvm_end(proc: "Popen[Any] | None", memory: str) -> str | None:
    """How the JVM ended; None if it runs."""
    if proc is None:
        return None
    try:
        code = proc.wait(_END_TIMEOUT_S)
    except TimeoutExpired:
        return None
    if code in _OUT_OF_MEMORY:
        return f"Spark's JVM ran out of memory (spark.driver.memory is {memory}): {_MORE_MEMORY}"
    if code < 0:
        name = signal.Signals(-code).name
        return f"Spark's JVM was killed ({name}); perhaps the machine ran out of memory"
    return f"Spark's JVM ended with code {code}"


def failure_of(error: BaseException) -> LedgerstoneError:
    """Our own errors unchanged; for any other, the line that matters."""
    if isinstance(error, LedgerstoneError):
        return error
    lost = jvm_end(_jvm(), _driver_memory()) if is_connection_lost(error) else None
    return SparkFailed(lost or spark_said(str(error) or type(error).__name__))


def is_connection_lost(error: BaseException) -> bool:
    """Whether there was no answer: the JVM is gone, or about to be."""
    from py4j.protocol import Py4JJavaError, Py4JNetworkError

    if isinstance(error, Py4JJavaError):
        return False
    text = str(error)
    return (
        isinstance(error, Py4JNetworkError | ConnectionError | EOFError)
        or "Answer from Java side is empty" in text
        or "does not exist in the JVM" in text
    )


@contextmanager
def spark_failures() -> Iterator[None]:
    """Whatever Spark raises in here comes out as SparkFailed, with one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        raise failure_of(error) from error


def _jvm() -> "Popen[Any] | None":
    from pyspark import SparkContext

    return getattr(SparkContext._gateway, "proc", None)


def _driver_memory() -> str:
    """As this process knows it: the JVM can no longer be asked."""
    from ledgerstone.spark.session_builder import started_with

    return started_with.get("spark.driver.memory", "1g")
