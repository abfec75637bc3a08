"""A real browser for tests of pages: Chromium driven through its debugging pipe."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SECONDS = 600.0
"""After which a test gives up on the browser: a guard against hanging, no measure."""
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",  # 3-D charts need WebGL, here drawn by the processor
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,900",
    "--remote-debugging-pipe",
)
DRAWN = "place => place.offsetParent === null || place.querySelector('.main-svg')"
"""Whether a figure is drawn, or not shown at all."""


@dataclass
class Browser:
    """Chromium driven through its debugging pipe: NUL-separated JSON on descriptors 3 and 4."""

    process: subprocess.Popen[bytes]
    to: int
    back: int
    events: list[dict[str, Any]] = field(default_factory=list)
    _pending: bytes = b""
    _number: int = 0

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        os.write(self.to, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            self.events.append(answer)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, method: str) -> None:
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self._receive())

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + SECONDS
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self.back], [], [], max(0.0, deadline - time.monotonic()))
            chunk = os.read(self.back, 1 << 20) if ready else b""
            assert chunk, "the browser does not answer"
            self._pending += chunk
        message, self._pending = self._pending.split(b"\0", 1)
        answer: dict[str, Any] = json.loads(message)
        return answer


@dataclass
class Page:
    """One report opened in its own tab."""

    browser: Browser
    session: str

    def run(self, expression: str) -> Any:
        answer = self.browser.call(
            "Runtime.evaluate",
            self.session,
            expression=expression,
            returnByValue=True,
            awaitPromise=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str) -> Any:
        """The value of an expression once it is true, looked at whenever the page has drawn."""
        looking = "new Promise(done => { const look = () => { const found = (" + expression + ");"
        return self.run(looking + "found ? done(found) : setTimeout(look, 20); }; look(); })")

    def hover(self, selector: str) -> list[str]:
        """The lines of the hover box over the element in the middle of the view."""
        boxes = "[...document.querySelectorAll('.hoverlayer .hovertext text')].map(box => box.textContent)"
        self._move(1, 1)
        self.until(f"{boxes}.length === 0")
        x, y = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        deadline = time.monotonic() + SECONDS
        lines: list[str] = []
        while not any(lines):  # plotly.js passes over moves that come too soon after another
            assert time.monotonic() < deadline, f"no hover box over {selector}"
            for shift in (3, 0):
                self._move(x + shift, y)
            lines = self.run(f"new Promise(done => setTimeout(() => done({boxes}), 50))")
        return lines

    def _move(self, x: float, y: float) -> None:
        self.browser.call("Input.dispatchMouseEvent", self.session, type="mouseMoved", x=x, y=y)

    def happened(self, method: str) -> list[dict[str, Any]]:
        return [e["params"] for e in self.browser.events if e.get("method") == method]

    def check_quiet(self) -> None:
        """No error, no dialogue, nothing loaded but the file itself and what is inside it."""
        logged = [e["entry"] for e in self.happened("Log.entryAdded") if e["entry"]["level"] == "error"]
        said = [e for e in self.happened("Runtime.consoleAPICalled") if e["type"] in ("error", "assert")]
        assert logged + said + self.happened("Runtime.exceptionThrown") == []
        assert self.happened("Page.javascriptDialogOpening") == []
        urls = [e["request"]["url"] for e in self.happened("Network.requestWillBeSent")]
        assert [url for url in urls if not url.startswith(("data:", "blob:"))] == urls[:1]
        assert urls[0].startswith("file:")


def chromium() -> str:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        reason = "no chromium on PATH: apt-get install chromium"
        if os.environ.get("CI") == "true":
            pytest.fail(reason)
        pytest.skip(reason)
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    command = [chromium(), *FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"]
    # away from descriptors 3 and 4, which the shell below is about to take
    (theirs_in, to), (back, theirs_out) = (
        tuple(fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in os.pipe()) for _ in range(2)
    )
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$@" 3<&{theirs_in} 4>&{theirs_out}', "chromium", *command],
        pass_fds=(theirs_in, theirs_out),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs_in)
    os.close(theirs_out)
    running = Browser(process, to, back)
    yield running
    running.call("Browser.close")
    process.wait(SECONDS)
    os.close(to)
    os.close(back)


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[[Path | str], Page]]:
    """Opens a file or an address, and waits until its figures are drawn."""
    targets = []

    def opened(page: Path | str) -> Page:
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        targets.append(target)
        session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            browser.call(f"{domain}.enable", session)
        browser.events.clear()
        address = page if isinstance(page, str) else page.resolve().as_uri()
        browser.call("Page.navigate", session, url=address)
        browser.wait_for("Page.loadEventFired")
        shown = Page(browser, session)
        # charts are drawn in turns of the event loop
        shown.until(f"[...document.querySelectorAll('.figure')].every({DRAWN})")
        return shown

    yield opened
    for target in targets:
        browser.call("Target.closeTarget", targetId=target)
