"""Every benchmark, one table each.

python -m bench [--quick]
"""

import argparse
from collections.abc import Callable

from bench import (
    acls,
    broker,
    cleaner,
    cleaner_load,
    codec,
    erasure,
    first_use,
    kernels,
    logins,
    metadata,
    scan,
    spark,
    spark_tables,
    state,
    storage,
    tls,
    txn_steps,
)
from bench.table import Row, render


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="less data and fewer rounds")
    quick: bool = parser.parse_args().quick
    tables: dict[str, Callable[[], list[Row]]] = {
        "First use": lambda: first_use.run(quick=quick),
        "Kernels": kernels.run,
        "Codec": lambda: _codec_rows(quick=quick),
        "Storage": lambda: storage.run(quick=quick),
        "Broker": lambda: broker.run(quick=quick),
        "Steps of a transaction": lambda: txn_steps.run(quick=quick),
        "TLS": lambda: tls.run(quick=quick),
        "Cleaner": lambda: cleaner.run(quick=quick),
        "Cleaner under load": lambda: cleaner_load.run(quick=quick),
        "Scan": lambda: scan.run(quick=quick),
        "Erasure": lambda: erasure.run(quick=quick),
        "State": lambda: state.run(quick=quick),
        "ACLs": lambda: acls.run(quick=quick),
        "Logins": lambda: logins.run(quick=quick),
        "Metadata": lambda: metadata.run(quick=quick),
        "Spark": lambda: spark.run(quick=quick),
        "Tables and bulk compaction on Spark": lambda: spark_tables.run(quick=quick),
    }
    for name, run in tables.items():
        print(f"## {name}\n")
        print(render(run()), flush=True)
        print()


def _codec_rows(*, quick: bool) -> list[Row]:
    rounds, seconds = (1, 0.02) if quick else (5, 0.2)
    return [
        row
        for case in codec.cases()
        for row in codec.case_rows(case, rounds=rounds, seconds=seconds)
    ]


if __name__ == "__main__":
    main()
