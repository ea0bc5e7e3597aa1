"""A headless Chromium that is told over a pipe what to do: the DevTools protocol, nothing else."""

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time

from waiting import HANG, until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
FLAGS += ("--no-first-run", "--disable-extensions", "--disable-background-networking")
FLAGS += ("--hide-scrollbars", "--disable-component-update", "--disable-crash-reporter")


def found():
    """The path of a browser of this kind, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """A browser with one page; `events` are those that it has reported."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="browser-")
        self.process, self._write, self._read = _started(program, self.folder)
        self._count, self._rest, self.events, self._session = 0, b"", [], {}
        target = self("Target.createTarget", url="about:blank")["targetId"]
        session = self("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self._session = {"sessionId": session}
        for domain in ("Page", "Network", "Runtime", "Log"):
            self(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        with contextlib.suppress(OSError, ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __call__(self, method, **parameters):
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters} | self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + HANG
        while True:
            answer = self._next(until)
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self, until):
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            data = os.read(self._read, 1 << 20) if ready else b""
            if not data:
                raise TimeoutError(f"no answer; the browser's exit code: {self.process.poll()}")
            self._rest += data
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(self, path, width, height=900):
        """Load a file offline, in a window of that width in CSS pixels."""
        self.events.clear()
        self("Network.emulateNetworkConditions", offline=True, latency=0,
             downloadThroughput=-1, uploadThroughput=-1)  # fmt: skip
        self.resize(width, height)
        self("Page.navigate", url=path.absolute().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next(time.monotonic() + HANG))

    def visit(self, address, width, height=900, dark=False):
        """Begin to load a page of a server, in a window of that width in CSS pixels."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self("Emulation.setEmulatedMedia", features=[scheme])
        self.resize(width, height, mobile=False)
        self("Page.navigate", url=address)

    def eventually(self, expression):
        """Wait until an expression of JavaScript gives something true, and return that."""
        return until(lambda: self.ask(f"(() => {{ try {{ return {expression} }} catch {{}} }})()"))

    def click(self, x, y):
        """Move the mouse to a place of the window, and click."""
        for kind, count in (("mouseMoved", 0), ("mousePressed", 1), ("mouseReleased", 1)):
            self("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=count,
                 button="left" if count else "none")  # fmt: skip
            time.sleep(0.1)

    def resize(self, width, height=900, mobile=True):
        """Let the window have that width in CSS pixels."""
        self("Emulation.setDeviceMetricsOverride", width=width, height=height,
             deviceScaleFactor=2, mobile=mobile)  # fmt: skip

    def ask(self, expression):
        """The value of an expression of JavaScript."""
        found = self("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def requested(self):
        """The addresses that were asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def complaints(self):
        """What stands in the console."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [event for event in self.events if event.get("method") in methods]

    def pdf(self, width, height):
        """The page as printed, of a size in inches, with the page's own margins."""
        printed = self("Page.printToPDF", paperWidth=width, paperHeight=height,
                       preferCSSPageSize=False, printBackground=True)  # fmt: skip
        return base64.b64decode(printed["data"])

    def screenshot(self, whole=True):
        """A PNG of the page."""
        shot = self("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return base64.b64decode(shot["data"])


def _started(program, folder):
    """The process, a descriptor to write to and one to read from; it has 3 and 4."""
    theirs, write = os.pipe()
    read, there = os.pipe()
    ends = [os.dup2(end, 200 + i, inheritable=False) for i, end in enumerate((theirs, there))]

    def give():
        os.dup2(ends[0], 3)
        os.dup2(ends[1], 4)

    process = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={folder}", "--remote-debugging-pipe"],
        preexec_fn=give,
        close_fds=False,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    for end in (theirs, there, *ends):
        os.close(end)
    return process, write, read
