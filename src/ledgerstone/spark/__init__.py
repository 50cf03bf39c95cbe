"""The Spark connector: `format("ledgerstone")`, and a session that starts from pip alone. Shell.

Importing this package imports neither pyspark nor Arrow: an executor loads only what it uses.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

__all__ = ["session"]


def session(
    app_name: str = "ledgerstone",
    *,
    master: str = "local[*]",
    memory: str = "1g",
    ui: bool = False,
    fast_start: bool = True,
    keep_classes: bool = True,
    short_lived: bool = False,
    conf: Mapping[str, str] | None = None,
    log_file: "Path | None" = None,
) -> "SparkSession":
    """A session with our settings; `session_builder.SessionPlan` says what each choice means."""
    from ledgerstone.spark.session_builder import SessionPlan, start

    plan = SessionPlan(
        app_name=app_name,
        master=master,
        memory=memory,
        ui=ui,
        fast_start=fast_start,
        keep_classes=keep_classes,
        short_lived=short_lived,
        conf=conf or {},
        log_file=log_file,
    )
    return start(plan)
