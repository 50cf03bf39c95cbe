"""Requests on their way: one for each peer, found again by correlation id. Pure."""

from typing import Final

from ledgerstone.dataclasses import dataclass

NEVER: Final = 1 << 62


@dataclass(slots=True)
class _Line:
    correlation: int | None = None
    expires_ms: int = 0
    backoff_until_ms: int = 0


class Peers:
    """A line to each peer: busy with one request, backing off after a failure, or free."""

    __slots__ = ("_lines", "_next_correlation", "_request_timeout_ms", "_retry_backoff_ms")

    def __init__(self, *, request_timeout_ms: int, retry_backoff_ms: int) -> None:
        self._request_timeout_ms = request_timeout_ms
        self._retry_backoff_ms = retry_backoff_ms
        self._next_correlation = 0
        self._lines: dict[int, _Line] = {}

    def free_at(self, peer_id: int, now_ms: int) -> int:
        """When the next request may go: now, after the backoff, or when this one times out."""
        line = self._lines.get(peer_id)
        if line is None:
            return now_ms
        if line.correlation is not None and now_ms >= line.expires_ms:
            # No answer: its late one will not match, and the next request may go at once.
            line.correlation = None
        if line.correlation is not None:
            return line.expires_ms
        return max(line.backoff_until_ms, now_ms)

    def is_free(self, peer_id: int, now_ms: int) -> bool:
        return self.free_at(peer_id, now_ms) <= now_ms

    def sent(self, peer_id: int, now_ms: int) -> int:
        correlation = self._next_correlation
        self._next_correlation += 1
        line = self._lines.setdefault(peer_id, _Line())
        line.correlation = correlation
        line.expires_ms = now_ms + self._request_timeout_ms
        return correlation

    def answered(self, peer_id: int, correlation: int) -> bool:
        """Whether this is the answer that was waited for."""
        line = self._lines.get(peer_id)
        if line is None or line.correlation != correlation:
            return False
        line.correlation = None
        line.backoff_until_ms = 0
        return True

    def back_off(self, peer_id: int, now_ms: int, delay_ms: int | None = None) -> None:
        delay_ms = self._retry_backoff_ms if delay_ms is None else delay_ms
        self._lines.setdefault(peer_id, _Line()).backoff_until_ms = now_ms + delay_ms

    def forget_requests(self) -> None:
        """The role changed: no answer to what an earlier role asked is wanted."""
        for line in self._lines.values():
            line.correlation = None
