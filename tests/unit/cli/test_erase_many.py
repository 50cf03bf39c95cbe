"""Many keys at once: which erasure is for which key is told, also where the command ends early."""

from pathlib import Path
from typing import Any, cast

import pytest

from ledgerstone.cli import erase
from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed
from ledgerstone.cli.keys_file import Pairs

BODY: dict[str, Any] = {"reason": "asked for"}
KEYS = [b"%03d" % number for number in range(erase.KEYS_PER_REQUEST + 1)]


class Api:
    """Takes the first request for erasures, and fails at what is named."""

    def __init__(self, fails_at: str) -> None:
        self._fails_at = fails_at
        self._asked = 0

    def post(self, path: str, content: dict[str, Any]) -> dict[str, Any]:
        first = self._asked
        if first and self._fails_at == "asking":
            raise AdminCallFailed("the broker is gone")
        self._asked += len(content["keys"])
        return {"erasures": [{"id": f"ER-{at}", "topic": "t"} for at in range(first, self._asked)]}

    def get(self, path: str) -> dict[str, Any]:
        if path == "clock":
            return {"virtual": False}
        if path == "erasures/ER-0":
            over = {"is_over": True, "status": "erased", "stage": "receipted", "waits_for": None}
            rest = {"stages": [], "aborted_transactions": [], "has_receipt": False}
            return {"id": "ER-0", **over, **rest, "recreated": [], "met_deadline": None}
        raise KeyboardInterrupt


def wait_for_all(api: Api, receipts: Path | None) -> None:
    known = cast(AdminApi, api)
    pairs = None if receipts is None else Pairs(receipts)
    erase._await_all(
        known,
        erase._ask(known, "t", KEYS, BODY, pairs),
        None,
        receipts,
        is_many=True,
        as_json=False,
    )


def test_keys_that_were_asked_for_are_named_where_the_asking_ends_early(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(AdminCallFailed):
        wait_for_all(Api("asking"), None)

    said = capsys.readouterr().err.splitlines()
    assert said[-erase.KEYS_PER_REQUEST :] == [
        f'ER-{number}  "{number:03d}"' for number in range(erase.KEYS_PER_REQUEST)
    ]


def test_keys_whose_end_was_not_told_are_named_where_the_wait_is_interrupted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(KeyboardInterrupt):
        wait_for_all(Api("waiting"), None)

    told = capsys.readouterr()
    assert told.out.startswith("ER-0 erased")
    assert told.err.splitlines() == [
        f'ER-{number}  "{number:03d}"' for number in range(1, len(KEYS))
    ]


def test_keys_that_stand_beside_the_receipts_are_not_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        wait_for_all(Api("waiting"), tmp_path)

    assert capsys.readouterr().err == ""
