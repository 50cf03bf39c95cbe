"""Programs that answer with one line, in processes of their own. Shell."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, Final

from bench.peers.processes import signal_tree

RESULT: Final = "RESULT "
DOING: Final = "DOING "


def run_job(command: Sequence[str]) -> Any:  # noqa: ANN401 - any JSON
    """The JSON behind the marker; whatever happens, nothing of the program is left running.

    Lines behind `DOING` are shown meanwhile."""
    answer = None
    with tempfile.TemporaryFile("w+", errors="replace") as complaints:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=complaints, text=True, start_new_session=True
        )
        assert process.stdout is not None
        try:
            with process.stdout:
                for line in process.stdout:
                    if line.startswith(RESULT):
                        answer = line.removeprefix(RESULT)
                    elif line.startswith(DOING):
                        print(f"  {line.removeprefix(DOING).rstrip()}", file=sys.stderr, flush=True)
            process.wait()
        finally:
            if process.poll() is None:
                signal_tree(process.pid, signal.SIGKILL)
                process.wait()
        if answer is not None:
            return json.loads(answer)
        complaints.seek(0)
        said = complaints.read()[-3000:]
    raise RuntimeError(f"{command[:4]} ended with {process.returncode}:\n{said}")
