"""The server of the page: this machine alone, a token in the address, reading alone."""

import asyncio
import hmac
import json
import logging
import secrets
import threading
from importlib import resources
from pathlib import Path

from integrators.errors import InputError
from sweep.live.stores import Choice, OpenedStore
from sweep.text import escape_controls_in_lines

PORT = 8787
TRIED = 20  # ports from the first on, where none is asked for
MISSING = "the page needs plotly and tornado, which are not here: pip install 'geosweep[live]'"
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
ASSETS = {"page.js": "text/javascript", "page.css": "text/css", "plotly.min.js": "text/javascript"}


def serve(names, host, port=None, told=print):
    """Serve the page of some stores until Ctrl-C.

    Parameters
    ----------
    names : sequence of str
        Paths or addresses of stores.
    host : str
    port : int, optional
        By default the first that is free from `PORT` on.
    told : callable, optional
        Called with the address once the page can be opened.

    Raises
    ------
    InputError
        If a store cannot be read, a port is taken, or a package is missing.
    """
    files = _files()
    stores = {name: OpenedStore(name) for name in dict.fromkeys(map(str, names))}
    token = secrets.token_urlsafe(16)
    asyncio.run(_serve(stores, files, token, host, port, told))


def _files():
    """The files of the page by name, with the library that draws."""
    try:
        import plotly
        import tornado  # noqa: F401
    except ImportError:
        raise InputError(MISSING) from None
    own = resources.files(__package__)
    found = {name: own.joinpath(name).read_bytes() for name in ("page.html", "page.js", "page.css")}
    library = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
    return found | {"plotly.min.js": library.read_bytes()}


async def _serve(stores, files, token, host, port, told):
    from tornado.httpserver import HTTPServer

    logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
    logging.getLogger("tornado.application").disabled = False  # a traceback of ours is to be seen
    server = HTTPServer(application(stores, files, token))
    bound = _listen(server, host, port)
    told(f"http://{f'[{host}]' if ':' in host else host}:{bound}/?token={token}")
    await asyncio.Event().wait()


def _listen(server, host, port):
    """Listen at a port, and which it is."""
    from tornado.netutil import bind_sockets

    ports = [port] if port is not None else [*range(PORT, PORT + TRIED), 0]
    for tried in ports:
        try:
            sockets = bind_sockets(tried, host)
        except OSError as error:
            why = error.strerror or error
            continue
        server.add_sockets(sockets)
        return sockets[0].getsockname()[1]
    raise InputError(f"{host}:{ports[0]} cannot be listened at: {why}; give another --port")


def application(stores, files, token):
    """The Tornado application.

    Parameters
    ----------
    stores : dict of str to OpenedStore
    files : dict of str to bytes
    token : str
        That every question must bring.

    Returns
    -------
    tornado.web.Application
    """
    from tornado.web import Application, HTTPError, RequestHandler

    class Handler(RequestHandler):
        """What all answers have in common."""

        def set_default_headers(self):
            for name, value in HEADERS.items():
                self.set_header(name, value)

        def write_error(self, status_code, **_):
            words = {403: "the token is not that of this server: open the address that it printed"}
            self.finish({"error": words.get(status_code, self._reason)})

    class Asset(Handler):
        """A file of the page, which knows nothing of stores."""

        def get(self, name):
            self.set_header("Content-Type", f"{ASSETS[name]}; charset=utf-8")
            self.finish(files[name])

    class Page(Handler):
        """The page itself."""

        def get(self):
            self.set_header("Content-Type", "text/html; charset=utf-8")
            self.finish(files["page.html"])

    class Api(Handler):
        """An answer as JSON or CSV, made in a thread: others are answered meanwhile."""

        def prepare(self):
            given = self.request.headers.get("X-Token") or self.get_query_argument("token", "")
            if not hmac.compare_digest(given.encode(), token.encode()):
                raise HTTPError(403)

        async def get(self, name):
            arguments = {
                key: [value.decode(errors="replace") for value in values]
                for key, values in self.request.query_arguments.items()
            }
            try:
                found = await _in_thread(lambda: ANSWERS[name](stores, arguments))
            except (InputError, OSError) as error:
                self.set_status(400)
                found = {"error": escape_controls_in_lines(str(error))}
            if isinstance(found, str):
                self.set_header("Content-Type", "text/csv; charset=utf-8")
                self.set_header("Content-Disposition", "attachment")
                self.finish(found)
            else:
                self.set_header("Content-Type", "application/json; charset=utf-8")
                self.finish(json.dumps(found, allow_nan=False))

    return Application(
        [
            (r"/", Page),
            (rf"/({'|'.join(map(_escaped, ASSETS))})", Asset),
            (rf"/api/({'|'.join(ANSWERS)})", Api),
        ],
        compress_response=True,
    )


def _escaped(name):
    return name.replace(".", r"\.")


def _in_thread(work):
    """A future of what a thread makes that does not keep the process when it ends."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()

    def settle(method, value):
        if not future.cancelled():
            getattr(future, method)(value)

    def run():
        try:
            found = "set_result", work()
        except Exception as error:
            found = "set_exception", error
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, *found)

    threading.Thread(target=run, daemon=True).start()
    return future


# --- answers -------------------------------------------------------------------------------------


def _stores(stores, arguments):
    return {"stores": list(stores)}


def _progress(stores, arguments):
    store = _store(stores, arguments)
    return store.watched.look() | {"version": store.watched.version()}


def _choices(stores, arguments):
    return _store(stores, arguments).choices()


def _figure(stores, arguments):
    return _store(stores, arguments).figure(_choice(arguments)).for_json()


def _data(stores, arguments):
    return _store(stores, arguments).figure(_choice(arguments)).as_csv()


def _run(stores, arguments):
    store, choice = _store(stores, arguments), _choice(arguments)
    row = _one(arguments, "run")
    if row and not row.isdecimal():
        raise InputError(f"run = {row!r}; expected the row of a run")
    place = int(row) if row else store.row_of_cell(choice)
    return store.run(choice.experiment, place, _one(arguments, "series"))


ANSWERS = {
    "stores": _stores, "progress": _progress, "choices": _choices, "figure": _figure,
    "data": _data, "run": _run,
}  # fmt: skip


def _one(arguments, name):
    return (arguments.get(name) or [""])[-1]


def _store(stores, arguments):
    name = _one(arguments, "store") or next(iter(stores))
    if name not in stores:
        raise InputError(f"store {name!r} is not served here; {', '.join(stores)}")
    return stores[name]


def _choice(arguments):
    """The `Choice` that an address names."""
    scanned = [
        (key.partition(":")[2], value)
        for key, values in arguments.items()
        if key.startswith("axis:")
        for value in values
    ]
    return Choice(
        experiment=_one(arguments, "experiment"),
        view=_one(arguments, "view") or "orders",
        integrators=tuple(arguments.get("integrator", ())),
        step_sizes=tuple(arguments.get("step_size", ())),
        tolerances=tuple(arguments.get("tolerance", ())),
        scanned=tuple(scanned),
        starts=_one(arguments, "starts"),
        quantity=_one(arguments, "quantity"),
        against=_one(arguments, "against"),
    )
