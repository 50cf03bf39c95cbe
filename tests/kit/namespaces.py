"""Hosts on this machine: network namespaces on one bridge, whose cables can be pulled.

Needs root and `ip`. A pulled cable drops packets and leaves connections standing, as in a real
network. Nothing can leave: the bridge has no other port, and the hosts have no default route.
"""

import os
import shutil
import subprocess
from contextlib import suppress
from typing import Final

GATEWAY: Final = 254


def is_permitted() -> bool:
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return False
    probe = f"ls{os.getpid()}p"
    if subprocess.run(["ip", "netns", "add", probe], capture_output=True).returncode != 0:
        return False
    subprocess.run(["ip", "netns", "del", probe], check=True)
    return True


class Namespaces:
    """Hosts 1 to `count`; the test itself sits on the bridge and reaches all of them."""

    def __init__(self, count: int) -> None:
        self._stem = f"ls{os.getpid() % 100_000}"
        self._hosts = range(1, count + 1)
        # More than one of these may exist on a machine: each has a network of its own.
        self._network = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}"

    def __enter__(self) -> "Namespaces":
        _ip("link", "add", self._stem, "type", "bridge")
        _ip("addr", "add", f"{self._network}.{GATEWAY}/24", "dev", self._stem)
        _ip("link", "set", self._stem, "up")
        for each in self._hosts:
            self._add(each)
        return self

    def _add(self, host: int) -> None:
        name, near, far = self.name(host), self._cable(host), f"{self._stem}i{host}"
        _ip("netns", "add", name)
        _ip("link", "add", near, "type", "veth", "peer", "name", far)
        _ip("link", "set", far, "netns", name)
        _ip("link", "set", near, "master", self._stem)
        _ip("link", "set", near, "up")
        _ip("-n", name, "addr", "add", f"{self.address(host)}/24", "dev", far)
        _ip("-n", name, "link", "set", far, "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def __exit__(self, *_: object) -> None:
        for each in self._hosts:
            with suppress(subprocess.CalledProcessError):
                _ip("netns", "del", self.name(each))
        _ip("link", "del", self._stem)

    def name(self, host: int) -> str:
        return f"{self._stem}n{host}"

    def address(self, host: int) -> str:
        return f"{self._network}.{host}"

    def prefix(self, host: int) -> tuple[str, ...]:
        """In front of a command that runs on this host."""
        return ("ip", "netns", "exec", self.name(host))

    def _cable(self, host: int) -> str:
        return f"{self._stem}c{host}"

    def pull(self, host: int) -> None:
        """Nothing gets to this host or away from it."""
        _ip("link", "set", self._cable(host), "down")

    def plug(self, host: int) -> None:
        _ip("link", "set", self._cable(host), "up")

    def block(self, source: int, target: int) -> None:
        """Nothing gets from `source` to `target`; the other direction stays open."""
        _ip("-n", self.name(source), "route", "add", "blackhole", f"{self.address(target)}/32")

    def unblock(self, source: int, target: int) -> None:
        _ip("-n", self.name(source), "route", "del", "blackhole", f"{self.address(target)}/32")


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)
