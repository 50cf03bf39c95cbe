"""Programs that answer with one line, in processes of their own. Shell."""

import json
import signal
import subprocess
from collections.abc import Sequence
from typing import Any, Final

from bench.peers.processes import signal_tree

RESULT: Final = "RESULT "


def run_job(command: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON
    """The JSON behind the marker; whatever happens, nothing of the program is left running."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, complaints = process.communicate()
    finally:
        if process.poll() is None:
            signal_tree(process.pid, signal.SIGKILL)
            process.wait()
    for line in output.splitlines():
        if line.startswith(RESULT):
            return json.loads(line.removeprefix(RESULT))
    raise RuntimeError(f"{command[:4]} ended with {process.returncode}:\n{complaints[-3000:]}")
