"""Fetches the keys that tokens are checked with, again and again. Grade S.

In a thread of its own: an issuer that does not answer holds up nobody; a start waits for it for ten
seconds. Whatever it answers, it is asked again. The last good set stays in use. A token that names
an unknown key brings the next fetch forward, once a minute at most.
"""

import http.client
import logging
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from ledgerstone.security.jwk import MAX_BYTES, parse_jwks
from ledgerstone.server.login.settings import TokenLogin

_LOG: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 10.0
_LOOK_S: Final = 0.5
_FIRST_RETRY_S: Final = 0.1
_LAST_RETRY_S: Final = 10.0
_EARLY_S: Final = 60.0
# What an issuer, or whatever answers in its place, can make of a fetch.
_FAILURES: Final = (OSError, ValueError, http.client.HTTPException)

Fetch = Callable[[str], bytes]


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Keys come from where the operator said, and from nowhere else."""

    def redirect_request(self, *_: object) -> None:
        return None


def fetch_keys(url: str) -> bytes:
    parts = urlsplit(url)
    if parts.scheme == "file":
        with Path(unquote(parts.path)).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(url, timeout=_TIMEOUT_S) as answer:
        content: bytes = answer.read(MAX_BYTES + 1)
    return content


class _Source:
    """One address, its keys, and when it is asked next."""

    def __init__(self, login: TokenLogin) -> None:
        self.login = login
        self.next_s = 0.0
        self.asked_s = float("-inf")
        self.failures = 0

    def is_due(self, now_s: float) -> bool:
        is_wanted = self.login.rules.keys.misses_key and now_s - self.asked_s >= _EARLY_S
        return now_s >= self.next_s or is_wanted

    def refresh(self, fetch: Fetch, now_s: float) -> None:
        keys, self.asked_s = self.login.rules.keys, now_s
        try:
            keys.keys = parse_jwks(fetch(self.login.url))
        except _FAILURES as error:
            self.failures += 1
            retry_s = min(_FIRST_RETRY_S * 2 ** min(self.failures - 1, 16), _LAST_RETRY_S)
            self.next_s = now_s + retry_s
            if self.failures == 1:
                _LOG.warning("keys for tokens cannot be had from %s: %s", self.login.url, error)
            return
        self.failures, keys.misses_key = 0, False
        self.next_s = now_s + self.login.refresh_ms / 1000
        _LOG.info("keys for tokens: %d from %s", len(keys.keys), self.login.url)


class KeyFetching:
    """From `start` to `stop`. The first fetch is tried before `start` returns, if it ends in time:
    somebody who sends a byte now and then must not hold up a broker for ever."""

    def __init__(self, logins: Collection[TokenLogin], fetch: Fetch = fetch_keys) -> None:
        self._sources = [_Source(each) for each in logins]
        self._fetch = fetch
        self._stopping = threading.Event()
        self._has_tried = threading.Event()
        self._thread = threading.Thread(target=self._run, name="token-keys", daemon=True)

    def start(self) -> None:
        self._thread.start()
        self._has_tried.wait(_TIMEOUT_S)

    def stop(self) -> None:
        self._stopping.set()

    def refresh_due(self, now_s: float) -> None:
        for source in self._sources:
            if source.is_due(now_s):
                source.refresh(self._fetch, now_s)

    def _run(self) -> None:
        while True:
            self.refresh_due(time.monotonic())
            self._has_tried.set()
            if self._stopping.wait(_LOOK_S):
                return
