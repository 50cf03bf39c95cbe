"""Supplements of a receipt: fetched from a broker, written beside it, found there. Shell."""

import http.client
import re
from pathlib import Path
from typing import Any

from ledgerstone.cli.admin_http import AdminApi, AdminCallFailed, AdminCallRefused
from ledgerstone.erasure.receipt import canonical


def write_supplements(api: AdminApi, erasure_id: str, receipt: Path) -> list[dict[str, Any]]:
    """Each beside the receipt, under the name that `verify-receipt` looks for."""
    contents = supplements_of(api, erasure_id)
    for content in contents:
        path = receipt.with_name(supplement_name(receipt, content["number"]))
        try:
            path.write_bytes(canonical(content))
        except OSError as error:
            raise AdminCallFailed(f"the supplement cannot be written: {error}") from error
    return contents


def supplements_of(api: AdminApi, erasure_id: str) -> list[dict[str, Any]]:
    try:
        found: list[dict[str, Any]] = api.get(f"erasures/{erasure_id}/supplements")["supplements"]
    except AdminCallRefused as error:
        if error.status == http.client.NOT_FOUND:
            # An older broker has none.
            return []
        raise
    return found


def supplement_name(receipt: Path, number: object) -> str:
    return f"{receipt.stem}.supplement-{number}.json"


def supplements_beside(receipt: Path) -> list[Path]:
    """What `write_supplements` has written, in the order of their numbers."""
    form = re.compile(re.escape(receipt.stem) + r"\.supplement-([0-9]{1,6})\.json")
    try:
        found = [(form.fullmatch(path.name), path) for path in receipt.parent.iterdir()]
    except OSError:
        return []
    return [path for _, path in sorted((int(each[1]), path) for each, path in found if each)]
