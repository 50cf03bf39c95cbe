"""`python -m ledgerstone.workers PARENT MODULE`: a worker of the process PARENT. Shell."""

import sys

from ledgerstone.workers.child import run

if __name__ == "__main__":
    run(int(sys.argv[1]), sys.argv[2])
