"""Whatever records, groups and clients are called, pages show it and none of it becomes markup.

The same pages are made twice, once from harmless words: if a hostile string added, changed or ended
an element or an attribute, the skeletons differ.
"""

import re
from functools import cache
from urllib.parse import quote

import pytest

from ledgerstone.web.wording import visible
from tests.kit.in_process import InProcess, frame_of
from tests.unit.server.asks import commit_offset, create_topic, join
from tests.web.hostile import STRINGS, TOPIC_NAMES
from tests.web.kit import Parsed, Visitor, append

TOPIC = "things"
HARMLESS = "harmless"


def machine_with(text: str) -> InProcess:
    """A broker in which everything that has a free name is called so."""
    machine = InProcess()
    client = machine.connect()
    create_topic(client, TOPIC, cleanup_policy="compact")
    data = text.encode("utf-8", "surrogatepass")
    append(machine, TOPIC, data, data, ((text, data),))
    append(machine, TOPIC, data, None, ((text, None),))
    append(machine, TOPIC, b"k", data)
    commit_offset(client, text, 1, TOPIC)
    member = machine.connect_raw()
    member.feed(frame_of(join("readers"), 3, client_id=text))
    return machine


@cache
def pages(text: str) -> dict[str, str]:
    visitor = Visitor(machine_with(text)).let_in()
    name = quote(text, safe="")
    shown = {
        path: visitor.shown(path)
        for path in (
            "/",
            "/topics",
            f"/topics/{TOPIC}",
            f"/topics/{TOPIC}/records",
            f"/topics/{TOPIC}/records/0/0",
            f"/topics/{TOPIC}/records/0/1",
            f"/topics/{TOPIC}/latest",
            "/groups",
            "/groups/readers",
        )
    }
    shown["group"] = visitor.shown(f"/groups/{name}")
    shown["produce"] = visitor.shown(f"/topics/{TOPIC}/produce?partition=0&offset=1")
    shown["erase"] = visitor.shown(f"/erasures?topic={TOPIC}&partition=0&offset=1")
    shown["search"] = visitor.shown(f"/topics?q={name}")
    shown["notice"] = visitor.shown(f"/?notice={name}")
    for what, path in (
        ("no topic", f"/topics/{name}"),
        ("no group", f"/groups/no{name}"),
        ("no erasure", f"/erasures/{name}"),
        ("no time", f"/topics/{TOPIC}/records?time=z{name}"),
        ("no number", f"/topics/{TOPIC}/records?offset=z{name}"),
    ):
        page = visitor.get(path)
        assert page.status in (400, 404), path
        shown[what] = str(page.body)
    for fragment in ("topics", "groups", f"partitions:{TOPIC}"):
        shown[f"fragment {fragment}"] = visitor.site._fragment(fragment)
    return shown


@cache
def expected() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """How each page is built where every name is harmless."""
    return {path: Parsed(page).skeleton for path, page in pages(HARMLESS).items()}


# Whether a list is empty depends on what is searched for; then the whole page is another.
SEARCH = "search"
# Here the name decides which row comes first.
SORTED = ("/groups", "fragment groups")
# Here the key decides how it is written into a field, as text or in hexadecimal.
FILLED = ("produce", "erase")


def unchosen(page: Parsed) -> list[tuple[str, tuple[str, ...]]]:
    return [each for each in page.skeleton if each[0] != "option"]


@pytest.mark.parametrize("text", STRINGS)
def test_nothing_of_a_hostile_string_becomes_markup(text: str) -> None:
    for path, page in pages(text).items():
        parsed = Parsed(page)

        assert not parsed.unbalanced, path
        for tag, attributes in parsed.elements:
            assert "pwned" not in tag, path
            for name, value in attributes.items():
                assert "pwned" not in name, path
                assert not name.startswith("on"), path
                if name in ("href", "src", "action"):
                    assert re.match(r"/(?![/\\])|#", str(value)), (path, value)
        if path in SORTED:
            assert sorted(parsed.skeleton) == sorted(expected()[path]), path
        elif path in FILLED:
            assert unchosen(parsed) == [each for each in expected()[path] if each[0] != "option"]
        elif path != SEARCH:
            assert parsed.skeleton == expected()[path], path


@pytest.mark.parametrize("text", STRINGS)
def test_hostile_string_is_shown_as_the_text_it_is(text: str) -> None:
    shown = pages(text)
    wanted = " ".join(visible(text).split())[:100]

    for path in (
        f"/topics/{TOPIC}/records",
        f"/topics/{TOPIC}/latest",
        "/groups",
        "/groups/readers",
        "group",
        "notice",
    ):
        assert wanted in " ".join(Parsed(shown[path]).text.split()), path


@pytest.mark.parametrize("name", TOPIC_NAMES)
def test_topic_with_a_strange_name_has_its_pages(name: str) -> None:
    machine = InProcess()
    create_topic(machine.connect(), name, cleanup_policy="compact")
    append(machine, name, b"k", b"v")
    visitor = Visitor(machine).let_in()

    for path in ("", "/records", "/latest", "/produce", "/records/0/0"):
        page = Parsed(visitor.shown(f"/topics/{quote(name, safe='')}{path}"))
        assert name in page.text
        assert not page.unbalanced
    assert name in Parsed(visitor.shown("/topics")).text


def test_there_are_enough_of_them() -> None:
    assert len(set(STRINGS)) >= 60
