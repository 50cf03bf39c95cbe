"""Fragments that are sent again when they have changed, rendered once for all."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledgerstone.security.authorizer import Authorizer
from ledgerstone.security.principal import Principal
from ledgerstone.server.http.asker import Asker
from ledgerstone.web import live
from ledgerstone.web.live import Live, frame


class Stage:
    """What fragments say, how often each was made, and a clock that ticks fast."""

    def __init__(self) -> None:
        self.texts = {"a": "A", "b": "B"}
        self.made: list[str] = []
        self.ticks = 0
        self.rests = 0
        self.live = Live(self._render, self._tick, self._rest)

    def _render(self, name: str, asker: Asker) -> str:
        self.made.append(name)
        return self.texts[name]

    def _tick(self) -> None:
        self.ticks += 1

    def _rest(self) -> None:
        self.rests += 1

    async def round(self) -> None:
        ticks = self.ticks
        while self.ticks < ticks + 2:
            await asyncio.sleep(0)


def run(
    monkeypatch: pytest.MonkeyPatch, play: Callable[[Stage], Coroutine[None, None, None]]
) -> None:
    monkeypatch.setattr(live, "TICK_S", 0)

    async def within_time() -> None:
        async with asyncio.timeout(20):
            await play(Stage())

    asyncio.run(within_time())


async def opened(stage: Stage, *names: str) -> AsyncGenerator[bytes, None]:
    """A stream that has said it is open."""
    frames = stage.live.follow(names)
    assert (await anext(frames)).startswith(b":")
    return frames


def test_reader_gets_every_fragment_first_and_then_what_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(stage: Stage) -> None:
        frames = await opened(stage, "a", "b")
        await stage.round()
        assert await anext(frames) == frame("a", "A") + frame("b", "B")

        stage.texts["b"] = "B2"
        assert await anext(frames) == frame("b", "B2")
        await frames.aclose()

    run(monkeypatch, play)


def test_readers_with_other_rights_get_fragments_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(stage: Stage) -> None:
        stage.live = Live(lambda _, who: str(who.principal), stage._tick, stage._rest)
        ann, bob = asker("ann"), asker("bob")
        streams = [stage.live.follow(["a"], each) for each in (ann, bob, asker("ann"))]
        for each in streams:
            await anext(each)
        await stage.round()
        got = [await anext(each) for each in streams]
        assert got == [frame("a", f"User:{name}") for name in ("ann", "bob", "ann")]
        assert len(stage.live._sent) == 2
        for each in streams:
            await each.aclose()

    run(monkeypatch, play)


def test_stream_ends_with_what_let_its_reader_in(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        is_valid = [True]
        frames = stage.live.follow(["a"], replace(asker("ann"), is_valid=lambda: is_valid[0]))
        other = await opened(stage, "a")
        await anext(frames)
        assert await anext(frames) == await anext(other) == frame("a", "A")

        is_valid[0] = False
        stage.texts["a"] = "A2"

        assert [each async for each in frames] == []
        assert await anext(other) == frame("a", "A2")
        await other.aclose()

    run(monkeypatch, play)


def asker(name: str) -> Asker:
    principal = Principal("User", name)
    rights = Authorizer().rights_of(principal, "10.0.0.1")
    return Asker(principal=principal, host="10.0.0.1", rights=rights)


def test_fragment_is_rendered_once_for_all_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        readers = [await opened(stage, "a") for _ in range(10)]
        for each in readers:
            assert await anext(each) == frame("a", "A")
        await stage.round()

        assert len(stage.made) <= stage.ticks
        for each in readers:
            await each.aclose()

    run(monkeypatch, play)


def test_slow_reader_gets_the_newest_and_no_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        frames = await opened(stage, "a")
        for number in range(5):
            stage.texts["a"] = f"A{number}"
            await stage.round()

        assert await anext(frames) == frame("a", "A4")
        await frames.aclose()

    run(monkeypatch, play)


def test_nothing_is_rendered_when_the_last_reader_has_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(stage: Stage) -> None:
        first, second = await opened(stage, "a"), await opened(stage, "b")
        await stage.round()
        await first.aclose()
        assert (stage.live.reader_count, stage.rests) == (1, 0)
        await second.aclose()

        made = len(stage.made)
        for _ in range(20):
            await asyncio.sleep(0)
        assert (stage.live.reader_count, stage.rests, len(stage.made)) == (0, 1, made)

    run(monkeypatch, play)


def test_stream_that_is_opened_again_starts_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        frames = await opened(stage, "a")
        await anext(frames)
        await frames.aclose()

        frames = await opened(stage, "a")
        assert await anext(frames) == frame("a", "A")
        await frames.aclose()

    run(monkeypatch, play)


def test_fragment_that_fails_does_not_stop_the_others(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def play(stage: Stage) -> None:
        del stage.texts["a"]
        frames = await opened(stage, "a", "b")
        assert await anext(frames) == frame("b", "B")
        await frames.aclose()

    run(monkeypatch, play)

    assert "fragment failed name=a" in caplog.text


def test_quiet_stream_says_now_and_then_that_it_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "KEEP_ALIVE_S", 0)

    async def play(stage: Stage) -> None:
        frames = await opened(stage, "a")
        while (said := await anext(frames)) == frame("a", "A"):
            pass
        assert said.startswith(b":")
        await frames.aclose()

    run(monkeypatch, play)


def test_stream_watches_so_many_fragments_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    async def play(stage: Stage) -> None:
        stage.texts = {str(number): "x" for number in range(50)}
        frames = await opened(stage, *stage.texts)
        await stage.round()
        assert len(set(stage.made)) == live.MAX_FRAGMENTS
        await frames.aclose()

    run(monkeypatch, play)


def _read_back(data: bytes) -> tuple[str, str]:
    """As the standard says a browser reads one event."""
    lines = data.decode().replace("\r\n", "\n").replace("\r", "\n").split("\n")
    assert lines[-2:] == ["", ""]
    fields = [line.partition(": ")[::2] for line in lines[:-2]]
    assert [name for name, _ in fields] == ["event"] + ["data"] * (len(fields) - 1)
    return fields[0][1], "\n".join(text for _, text in fields[1:])


@given(st.text())
def test_text_of_any_kind_stays_inside_its_event(text: str) -> None:
    name, read = _read_back(frame("topics", text))

    assert name == "topics"
    assert read == text.replace("\r\n", "\n").replace("\r", "\n")
