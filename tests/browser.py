"""The browser of the tests: find it, or skip the test (fail it where ATTNLIB_REQUIRE_BROWSER=1); launch it."""

import os
import shutil
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def find_browser():
    """The path of a Chromium or Chrome; skips the test where there is none, or fails it if one is required."""
    path = os.environ.get("ATTNLIB_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if path:
        return path
    message = "no browser found: install Chromium (Debian: apt install chromium) or set ATTNLIB_BROWSER to one's path"
    if os.environ.get("ATTNLIB_REQUIRE_BROWSER") == "1":
        pytest.fail(message)
    pytest.skip(message)


@contextmanager
def launched(*flags):
    """A browser with a fresh profile (playwright makes and removes the folder), closed at the end of the `with`.

    One for each test file: playwright's event loop must be gone before another file's tests run a kernel.
    """
    path = find_browser()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*FLAGS, *flags])
        yield browser
        browser.close()
