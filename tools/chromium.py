"""Debian's Chromium without a window, driven by selenium: for screenshots and browser tests. Shell.

It loads nothing but what it is told to, and forgets everything afterwards.
"""

import shutil
from pathlib import Path
from typing import Final

from selenium.webdriver import Chrome
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

_FLAGS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    # Nor a GPU in software: no page of ours draws in three dimensions. Without it and extensions,
    # a page takes a sixth less CPU time.
    "--disable-software-rasterizer",
    "--disable-extensions",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


def why_missing() -> str | None:
    """Why there is no browser here; None if there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    if not missing:
        return None
    return f"{' and '.join(missing)} not on the PATH: apt-get install chromium chromium-driver"


def open_chromium(profile: Path, *, width: int = 1200, height: int = 800) -> Chrome:
    """`profile` must be an empty directory. `quit` ends it."""
    options = Options()
    options.binary_location = str(shutil.which("chromium"))
    for flag in (*_FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return Chrome(options, Service(str(shutil.which("chromedriver"))))


def complaints(browser: Chrome) -> list[str]:
    """What pages have complained about since this was last asked."""
    entries = browser.get_log("browser")  # type: ignore[no-untyped-call]
    return [str(each["message"]) for each in entries if each["level"] == "SEVERE"]


def prefer_dark(browser: Chrome, *, is_dark: bool) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
