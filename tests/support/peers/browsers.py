"""The system's own browsers under Playwright: Chromium, and stock Firefox over WebDriver BiDi.

Playwright downloads browsers of its own by default; the tests take Debian's. It drives a stock Firefox by its channel
`moz-firefox`, with the relay of `firefox_relay` between them.
"""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, BrowserContext, Playwright

from tests.support.peers import firefox_relay

NAMES = {
    "chromium": ("chromium", "chromium-browser", "google-chrome"),
    "firefox": ("firefox-esr", "firefox"),
}
SCHEME_OF_PAGES = "layout.css.prefers-color-scheme.content-override"
"""Firefox's preference: 0 is dark, 1 is light."""


def installed(kind: str) -> str | None:
    """The path of a browser of this kind (`chromium` or `firefox`), if there is one."""
    return next(filter(None, map(shutil.which, NAMES[kind])), None)


class Browsers:
    """Browsers of one kind, each started when first asked for, and their contexts.

    One Chromium serves every colour scheme. A Firefox has one for its lifetime, so there is one for each scheme.
    """

    def __init__(self, playwright: Playwright, kind: str, path: str, folder: Path) -> None:
        """`folder` is where the relay's start file lies."""
        self.kind = kind
        self._playwright = playwright
        self._path = path
        self._folder = folder
        self._running: dict[str, Browser] = {}
        self._contexts: dict[str, BrowserContext] = {}

    async def start(self, scheme: str = "light") -> Browser:
        """The browser with this colour scheme. Raises Playwright's Error where it does not start."""
        name = scheme if self.kind == "firefox" else ""
        if name not in self._running:
            self._running[name] = await (self._firefox(scheme) if self.kind == "firefox" else self._chromium())
        return self._running[name]

    async def context(self, **options: Any) -> BrowserContext:
        """The context with these options of `Browser.new_context`, one for all who ask for it.

        Firefox has no mobile mode and no touch screen of its own: there a phone is its size and its pixels.
        """
        key = str(options)
        if key not in self._contexts:
            browser = await self.start(options.get("color_scheme", "light"))
            if self.kind == "firefox":
                options.pop("is_mobile", None)
            self._contexts[key] = await browser.new_context(**options)
        return self._contexts[key]

    async def close(self) -> None:
        for context in self._contexts.values():
            await context.close()
        for browser in self._running.values():
            await browser.close()

    async def _chromium(self) -> Browser:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        return await self._playwright.chromium.launch(executable_path=self._path, args=[*flags, "--disable-gpu"])

    async def _firefox(self, scheme: str) -> Browser:
        """Playwright starts the relay as if it were Firefox, so the relay needs a file of its own to be started by."""
        command = [sys.executable, str(Path(firefox_relay.__file__)), self._path, scheme]
        start = self._folder / f"firefox-{scheme}"
        start.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
        start.chmod(0o755)
        return await self._playwright.firefox.launch(
            channel="moz-firefox",
            executable_path=start,
            firefox_user_prefs={
                SCHEME_OF_PAGES: {"dark": 0, "light": 1}[scheme],
                "browser.download.dir": str(self._folder),  # else ~/Downloads, with others who run them
                "browser.download.folderList": 2,
            },
        )
