"""The web server of the live page: local, read-only, and protected by a token in the address."""

import asyncio
import concurrent.futures
import hmac
import json
import logging
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from integrators.errors import InputError
from sweep.errors import Damaged
from sweep.reports.live.opened_stores import ANSWERS, OpenedStore
from sweep.reports.live.views import Choice, last_of_choice
from sweep.text import escape_controls_in_lines

try:
    import plotly
    from tornado.httpserver import HTTPServer
    from tornado.netutil import bind_sockets
    from tornado.web import Application, HTTPError, RequestHandler
except ImportError as error:
    raise InputError(
        f"the page needs {error.name}, which is not here: pip install 'geosweep[live]'"
    ) from None

Stores = Mapping[str, OpenedStore]  # by the names under which they were given
Result = TypeVar("Result")

PORT = 8787
MOST_PORTS = 20  # number of ports to try if none is given
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
OWN = {"": "text/html", "page.css": "text/css", "page.js": "text/javascript"}  # files of the page
LIBRARY = "plotly.min.js"


def serve(
    names: Sequence[str],
    host: str,
    port: int | None = None,
    announce: Callable[[str], object] = print,
) -> None:
    """Serve the live page of stores until Ctrl-C.

    Parameters
    ----------
    names : sequence of str
        Paths or addresses of stores.
    host : str
        The address to listen on.
    port : int, optional
        By default the first free port from `PORT` on.
    announce : callable, optional
        Called with the address once the page can be opened.

    Raises
    ------
    InputError
        If a store cannot be read, or a port is taken.
    """
    files = _files_of_page()
    stores = {name: OpenedStore(name) for name in dict.fromkeys(map(str, names))}
    token = secrets.token_urlsafe(16)
    asyncio.run(_serve(stores, files, token, host, port, announce))


def _files_of_page() -> dict[str, bytes]:
    """The files of the page by name, including the plotting library."""
    own, library = resources.files(__package__), Path(plotly.__file__).parent / "package_data"
    files = {name: own.joinpath(name or "page.html").read_bytes() for name in OWN}
    return files | {LIBRARY: (library / LIBRARY).read_bytes()}


async def _serve(
    stores: Stores,
    files: Mapping[str, bytes],
    token: str,
    host: str,
    port: int | None,
    announce: Callable[[str], object],
) -> None:
    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
    logging.getLogger("tornado.application").disabled = False  # it logs our tracebacks
    server = HTTPServer(application(stores, files, token))
    bound = _listen(server, host, port)
    announce(f"http://{f'[{host}]' if ':' in host else host}:{bound}/?token={token}")
    await asyncio.Event().wait()


def _listen(server: HTTPServer, host: str, port: int | None) -> int:
    """Listen on the port, or on the first free one, and return it."""
    ports = [port] if port is not None else [*range(PORT, PORT + MOST_PORTS), 0]
    for candidate in ports:
        try:
            sockets = bind_sockets(candidate, host)
        except OSError as error:
            why = error.strerror or error
            continue
        server.add_sockets(sockets)
        bound: int = sockets[0].getsockname()[1]
        return bound
    raise InputError(f"{host}:{ports[0]} cannot be listened at: {why}; give another `port`")


def application(stores: Stores, files: Mapping[str, bytes], token: str) -> Application:
    """The Tornado application of the page.

    Parameters
    ----------
    stores : dict of str to OpenedStore
    files : dict of str to bytes
    token : str
        Required of every request for data.

    Returns
    -------
    tornado.web.Application
    """

    class Handler(RequestHandler):
        """Headers and errors that all responses share."""

        def set_default_headers(self) -> None:
            for name, value in HEADERS.items():
                self.set_header(name, value)

        def log_exception(self, kind: Any, error: Any, traceback: Any) -> None:
            """Log a traceback with the path only, since the full address contains the token."""
            if not isinstance(error, HTTPError):
                log = logging.getLogger("tornado.application")
                log.error("GET %s", self.request.path, exc_info=(kind, error, traceback))

        def write_error(self, status_code: int, **_: Any) -> None:
            words = {403: "the token is not that of this server: open the address that it printed"}
            self.finish({"error": words.get(status_code, self._reason)})

    class File(Handler):
        """A file of the page, without data of stores."""

        def get(self, name: str) -> None:
            self.set_header("Content-Type", f"{OWN.get(name, 'text/javascript')}; charset=utf-8")
            self.finish(files[name])

    class Api(Handler):
        """Data as JSON or CSV, made in a thread so that other requests need not wait."""

        def prepare(self) -> None:
            given = self.request.headers.get("X-Token") or self.get_query_argument("token", "")
            if not hmac.compare_digest(given.encode(), token.encode()):
                raise HTTPError(403)

        async def get(self, name: str) -> None:
            choice = {
                key: [value.decode(errors="replace") for value in values]
                for key, values in self.request.query_arguments.items()
            }
            try:
                answer = await _call_in_thread(lambda: _answer(stores, name, choice))
            except (Damaged, InputError, OSError) as error:
                self.set_status(400)
                answer = {"error": escape_controls_in_lines(str(error))}
            if isinstance(answer, str):
                self.set_header("Content-Type", "text/csv; charset=utf-8")
                self.set_header("Content-Disposition", "attachment")
                self.finish(escape_controls_in_lines(answer))
            else:
                self.set_header("Content-Type", "application/json; charset=utf-8")
                self.finish(json.dumps(answer, allow_nan=False))

    return Application(
        [
            (rf"/({'|'.join(map(re.escape, files))})", File),
            (rf"/api/({'|'.join(['stores', *ANSWERS])})", Api),
        ],
        compress_response=True,
    )


def _call_in_thread(work: Callable[[], Result]) -> asyncio.Future[Result]:
    """Call a function in a daemon thread, which ends with the process; return a future."""
    future: concurrent.futures.Future[Result] = concurrent.futures.Future()
    future.set_running_or_notify_cancel()  # Ctrl-C cannot cancel it: the thread has its result

    def run() -> None:
        try:
            future.set_result(work())
        except Exception as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return asyncio.wrap_future(future)


def _answer(stores: Stores, name: str, choice: Choice) -> dict[str, Any] | str:
    """The response of a store to a request, as data for JSON or as CSV."""
    if name == "stores":
        return {"stores": list(stores)}
    store = last_of_choice(choice, "store") or next(iter(stores))
    if store not in stores:
        raise InputError(f"store {store!r} is not served here; {', '.join(stores)}")
    return ANSWERS[name](stores[store], choice)
