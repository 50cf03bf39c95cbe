"""`ledgerstone where`: finds every record of a key, and the file it is in. Shell.

The key travels in the body of a request, because addresses get logged and bodies do not. A search
takes time, so the broker first returns a ticket, which is then polled.
"""

import time
from typing import Annotated, Any, Final

import typer

from ledgerstone.cli.admin_http import (
    AdminApi,
    AdminCallFailed,
    TokenOption,
    cluster_api,
    topic_path,
)
from ledgerstone.cli.key_options import (
    KeyArgument,
    KeyBase64Option,
    KeyFileOption,
    KeyHexOption,
    in_base64,
    need_key,
)
from ledgerstone.cli.options import (
    DEFAULT_BOOTSTRAP,
    BootstrapOption,
    JsonOption,
    TopicArgument,
    connect,
)
from ledgerstone.cli.output import (
    Cell,
    flush,
    printable,
    show_bytes,
    show_time,
    write_json,
    write_line,
    write_rows,
)
from ledgerstone.cli.replicas import ReplicasOption
from ledgerstone.dataclasses import replace
from ledgerstone.types import TopicPartition

POLL_S: Final = 0.1
_COLUMNS: Final = (
    "partition",
    "offset",
    "state",
    "written",
    "file",
    "position",
    "codec",
    "erasure",
)


def where(
    topic: TopicArgument,
    key: KeyArgument = None,
    replicas: ReplicasOption = False,
    timeout: Annotated[float, typer.Option(help="Most seconds to wait.", min=0)] = 600.0,
    key_hex: KeyHexOption = None,
    key_base64: KeyBase64Option = None,
    key_file: KeyFileOption = None,
    as_json: JsonOption = False,
    token: TokenOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show every record of a key: live, superseded or tombstone, and in which file."""
    wanted = need_key(key, key_hex, key_base64, key_file)
    with connect(bootstrap) as client:
        client.topic(topic)
        api = cluster_api(client, token)
    deadline_s = time.monotonic() + timeout
    body = {"key": in_base64(wanted), "replicas": replicas}
    # The ticket is that of one broker.
    api = replace(api, others=())
    answers = [_wait(api, api.post(topic_path(topic, "where"), body), deadline_s)]
    show(topic, wanted, answers, as_json=as_json)
    if any(answer["trouble"] for answer in answers):
        raise typer.Exit(1)


def _wait(api: AdminApi, search: dict[str, Any], deadline_s: float) -> dict[str, Any]:
    while not search["done"]:
        if time.monotonic() > deadline_s:
            raise AdminCallFailed("the search is not done yet; try a longer --timeout")
        time.sleep(POLL_S)
        search = api.get(f"searches/{search['search']}")
    if search["failure"] is not None:
        raise AdminCallFailed(f"the search failed: {search['failure']}")
    answer: dict[str, Any] = search["answer"]
    return answer


def show(topic: str, key: bytes, answers: list[dict[str, Any]], *, as_json: bool) -> None:
    """`answers` come from the brokers, as `erasure.places.places_json` makes them."""
    places = [place for answer in answers for place in answer["places"]]
    is_by_broker = any("broker" in place for place in places)
    places.sort(
        key=lambda each: (each["partition"], each["offset"], each.get("broker", 0), each["file"])
    )
    if as_json:
        for place in places:
            write_json({"topic": topic, **place})
        flush()
    elif not places:
        write_line(f"no record of {printable(topic)} has the key {show_bytes(key)}")
    else:
        columns = ("broker", *_COLUMNS) if is_by_broker else _COLUMNS
        rows = [_row(topic, place) for place in places]
        if is_by_broker:
            rows = [[place["broker"], *row] for place, row in zip(places, rows, strict=True)]
        write_rows(columns, rows, as_json=False)
    for answer in answers:
        _warn(answer, len(places))
    flush()


def _row(topic: str, place: dict[str, Any]) -> list[Cell]:
    directory = TopicPartition(topic, place["partition"])
    return [
        place["partition"],
        place["offset"],
        place["state"],
        show_time(place["timestamp_ms"]),
        f"{directory}/{place['file']}",
        place["position"],
        place["codec"],
        place["erasure_id"],
    ]


def _warn(answer: dict[str, Any], shown: int) -> None:
    """To standard error, so that programs can read standard output."""
    if answer["truncated"]:
        typer.echo(f"{answer['records']} records have the key; {shown} are shown", err=True)
    if answer["trouble"]:
        typer.echo(f"the search is incomplete: {printable(answer['trouble'])}", err=True)
