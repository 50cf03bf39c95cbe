"""Where the suite's CPU seconds go, by directory, file and test: `pytest -p tests.kit.cpu_times`.

Wall time tells little on a machine that does something else too. A test's seconds are those of its
worker and of every process below it: brokers, databases, Spark, the browser. What a fixture costs
is counted with the test that asked for it first, or that was the last to need it.
"""

import os
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

FILES_SHOWN: Final = 60
TESTS_SHOWN: Final = 100
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PROPERTY: Final = "cpu_s"

_begun: Final = pytest.StashKey[float]()
_seconds: Final = defaultdict[str, float](float)


def cpu_seconds(pid: int) -> float:
    """Of a process, of those it has waited for, and of those that are still below it."""
    total = 0
    for each in _tree(pid):
        with suppress(OSError):
            fields = (
                Path(f"/proc/{each}/stat").read_text(errors="replace").rpartition(")")[2].split()
            )
            total += sum(map(int, fields[11:15]))
    return total / _TICKS


def _tree(pid: int) -> Iterator[int]:
    yield pid
    # A thread or a process may end while it is looked at.
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError):
                for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split():
                    yield from _tree(int(child))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_begun] = cpu_seconds(os.getpid())
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        # What nobody waited for is gone when it ends: a browser would take back what it has cost.
        spent = max(0.0, cpu_seconds(os.getpid()) - item.stash[_begun])
        report.user_properties.append((_PROPERTY, spent))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A worker's reports come with their properties to the process that shows the results."""
    for name, value in report.user_properties:
        if name == _PROPERTY and report.when == "teardown":
            _seconds[report.nodeid] += float(str(value))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    files, directories = defaultdict[str, float](float), defaultdict[str, float](float)
    for nodeid, spent in _seconds.items():
        path = nodeid.partition("::")[0]
        files[path] += spent
        directories["/".join(path.split("/")[:2])] += spent
    total = sum(_seconds.values())
    terminalreporter.section(f"{total:.0f} CPU seconds in tests, without collecting")
    for table, shown in ((directories, None), (files, FILES_SHOWN), (_seconds, TESTS_SHOWN)):
        for name in sorted(table, key=lambda each: -table[each])[:shown]:
            terminalreporter.write_line(f"{table[name]:9.2f}  {name}")
        terminalreporter.write_line("")
