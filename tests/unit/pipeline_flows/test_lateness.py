"""Late records are counted once, or the query does not start."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.pipeline.errors import PipelineError
from ledgerstone.pipeline.streams.frames import Topic
from ledgerstone.pipeline.streams.lateness import LATE_STATUS, route_late


def test_a_count_whose_checkpoint_is_gone_is_refused(tmp_path: Path) -> None:
    known = {"batch": 7, "newest_us": 1, "records": 20, "late": 2}
    (tmp_path / LATE_STATUS).write_text(json.dumps(known))
    no_session: Any = None

    with pytest.raises(PipelineError, match="no checkpoint"):
        route_late(
            no_session,
            Topic(bootstrap="127.0.0.1:1", name="t"),
            watermark="1 minute",
            work=str(tmp_path),
        )
