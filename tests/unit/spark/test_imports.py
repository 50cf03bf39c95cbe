"""What a planner process loads: Spark starts one for every streaming query."""

import subprocess
import sys

import pytest

_PROGRAM = """
import sys
import {module}
print(*(name for name in sys.modules if name.startswith({heavy!r})))
"""
# What makes rows out of batches, and what only some brokers are asked by.
_HEAVY = ("ledgerstone.records", "ledgerstone.state", "ledgerstone.client.fetcher", "http.client")


@pytest.mark.parametrize("module", ["stream_reader", "batch_reader", "source"])
def test_planning_loads_nothing_that_only_tasks_need(module: str) -> None:
    code = _PROGRAM.format(module=f"ledgerstone.spark.{module}", heavy=_HEAVY)

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert said.stdout.split() == []
