"""Supplements of a receipt as a broker hands them out, or does not."""

from typing import cast

import pytest

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, answer_of
from ledgerstone.cli.supplements import supplements_of
from ledgerstone.client.http_api import ApiAddress

AT = ApiAddress("127.0.0.1", 40404, False)


class Api:
    """Answers with a status, or not at all."""

    def __init__(self, status: int | None) -> None:
        self._status = status

    def get(self, path: str) -> dict[str, object]:
        if self._status is None:
            raise AdminCallFailed(f"the HTTP API at {AT}: timed out")
        return answer_of(AT, self._status, b'{"error": "see 404"}', is_question=True)


def supplements(status: int | None) -> list[dict[str, object]]:
    return supplements_of(cast(AdminApi, Api(status)), "ER-1")


def test_older_broker_has_none() -> None:
    assert supplements(404) == []


@pytest.mark.parametrize("status", [None, 403, 503])
def test_broker_that_does_not_tell_is_not_taken_for_one_that_has_none(status: int | None) -> None:
    with pytest.raises(AdminCallFailed):
        supplements(status)
