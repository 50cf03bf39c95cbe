"""A process of this interpreter that works for the broker and talks to it over pipes. Shell.

What is said over the pipes is up to the module that runs in it.
"""

import asyncio
import os
import sys


async def start(module: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        module,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
        # Importing numpy starts a thread for each core, which spins for a tenth of a second and
        # then waits for matrices that nobody here multiplies.
        env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
    )
