"""An S3 server on loopback, in memory: moto, with conditional puts one after another.

``python s3_server.py``: prints its port and serves until its input ends. Moto looks whether a
condition holds and then writes, in threads; S3 does that at once, and so does this one. It can
also be told to have `Troubles`, and to copy many objects at once.
"""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import urllib.request
import xml.etree.ElementTree as xml
from pathlib import Path

import psutil

ONE_AT_A_TIME = threading.Lock()
CHANGES = ("PUT", "POST", "DELETE")
LOCK = ".lock"
SIGNED = {  # moto looks at whose key it is, and at no signature
    "Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request",
    "Content-Type": "application/octet-stream",
}


class Troubles:
    """What a server does besides.

    Parameters
    ----------
    changes : int, optional
        After so many changes it fails at every request, but for those of leases.
    stops : bool
        Whether it stops then, and answers nothing until it is woken.
    failing : str, optional
        It fails at requests of paths that end like this.
    unheard : str, optional
        Of the next change of a path that ends like this, the answer is not heard.
    before : str, optional
        Before the next change of a path that ends like this another process puts `others`.
    others : dict of str to str
        By their paths, what objects are then.
    """

    def __init__(
        self, changes=math.inf, stops=False, failing=None, unheard=None, before=None, others=None
    ):
        self.changes, self.stops, self.failing, self.unheard = changes, stops, failing, unheard
        self.before, self.others = before, others
        self.changed = 0  # objects but for leases

    def fails(self, method, path):
        """Whether the server fails at a request."""
        self.changed += method in CHANGES and LOCK not in path
        if self.stops and self.changed > self.changes:
            self.stops = False
            os.kill(os.getpid(), signal.SIGSTOP)
        if LOCK not in path and self.changed > self.changes:
            return True
        return self.failing is not None and path.endswith(self.failing)

    def others_before(self, method, path):
        """What others put just before a request."""
        if self.before is None or method not in CHANGES or not path.endswith(self.before):
            return {}
        self.before = None
        return self.others

    def loses(self, method, path):
        """Whether the answer is not heard."""
        if self.unheard is None or method not in CHANGES or not path.endswith(self.unheard):
            return False
        self.unheard = None
        return True


def serve():
    """Serve for ever."""
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.moto_server.werkzeug_app import create_backend_app
    from moto.s3.models import s3_backends
    from werkzeug.serving import WSGIRequestHandler, make_server
    from werkzeug.test import Client

    moto, stored = create_backend_app("s3"), s3_backends[DEFAULT_ACCOUNT_ID]["aws"]
    others, troubles, requests = Client(moto), Troubles(), []

    def have(**said):
        nonlocal troubles
        changed, troubles = troubles.changed, Troubles(**said)
        return changed

    def asked():
        nonlocal requests
        before, requests = requests, []
        return before

    def below(path):
        bucket, _, key = path.partition("/")
        for name, one in list(stored.buckets[bucket].keys.items()):
            if name.startswith(f"{key}/"):
                yield name.removeprefix(f"{key}/"), one.value

    def copy(path, to):
        bucket, _, key = to.partition("/")
        for name, content in below(path):
            stored.put_object(bucket, f"{key}/{name}", content)

    def fetch(path, folder):
        for name, content in below(path):
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)

    commands = {f"/{command.__name__}": command for command in (have, asked, copy, fetch)}

    def served(environ, start_response):
        if environ.keys() & {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}:
            with ONE_AT_A_TIME:
                return list(moto(environ, start_response))
        return moto(environ, start_response)

    def app(environ, start_response):
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path in commands:
            said = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
            answer = json.dumps(commands[path](**json.loads(said))).encode()
            start_response("200 OK", [("Content-Length", f"{len(answer)}")])
            return [answer]
        requests.append((method, path))
        for other, content in troubles.others_before(method, path).items():
            others.put(other, data=content, headers=SIGNED)
        if not troubles.fails(method, path):
            lost = troubles.loses(method, path)
            answer = served(environ, (lambda *_: None) if lost else start_response)
            if not lost:
                return answer
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        start_response("503 Service Unavailable", [("Content-Length", "0")])
        return []

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay

        def log(self, *arguments):
            pass

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until whoever started it is gone


class Server:
    """A server in a process of its own; objects are named by their paths, from the bucket on."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, Path(__file__)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = f"http://127.0.0.1:{self.process.stdout.readline().strip()}"
        self.environment = {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
        }

    def client(self):
        """A client of boto3."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1",
            aws_access_key_id="key", aws_secret_access_key="secret",
        )  # fmt: skip

    def have(self, **troubles):
        """Let it have `Troubles`, without arguments none; how much was changed since the last."""
        return self._tell("have", **troubles)

    def asked(self):
        """Method and path of each request since the last call."""
        return self._tell("asked")

    def is_stopped(self):
        """Whether it has stopped, until it is woken."""
        return psutil.Process(self.process.pid).status() == psutil.STATUS_STOPPED

    def wake(self):
        """Let it go on, without `Troubles`."""
        self.process.send_signal(signal.SIGCONT)
        self.have()

    def read(self, path):
        """The bytes of an object."""
        return self._request("GET", f"/{path}")

    def write(self, path, data=b"", query=""):
        """Put an object or, without a slash in its name, a bucket; or, by a query, what it has."""
        self._request("PUT", f"/{path}", data, query)

    def remove(self, path):
        """Remove an object."""
        self._request("DELETE", f"/{path}")

    def below(self, path):
        """The objects below a path, sorted, as they are named from there."""
        bucket, _, key = path.partition("/")
        asked = urllib.parse.urlencode({"list-type": 2, "prefix": f"{key}/"})
        tree = xml.fromstring(self._request("GET", f"/{bucket}", query=asked))
        return sorted(
            node.text.removeprefix(f"{key}/") for node in tree.iter() if node.tag.endswith("}Key")
        )

    def copy(self, path, to):
        """Copy all that is below a path to below another."""
        self._tell("copy", path=path, to=to)

    def fetch(self, path, folder):
        """Write all that is below a path into a folder."""
        self._tell("fetch", path=path, folder=str(folder))

    def contents(self, path):
        """The bytes of all objects below a path, by their names."""
        with tempfile.TemporaryDirectory() as folder:
            self.fetch(path, folder)
            files = [file for file in Path(folder).rglob("*") if file.is_file()]
            return {str(file.relative_to(folder)): file.read_bytes() for file in files}

    def stop(self):
        """End it."""
        self.process.kill()
        self.process.communicate()

    def _tell(self, command, **said):
        return json.loads(self._request("POST", f"/{command}", json.dumps(said).encode()))

    def _request(self, method, path, data=None, query=""):
        url = f"{self.url}{urllib.parse.quote(path)}?{query}"
        asked = urllib.request.Request(url, data, SIGNED, method=method)
        with urllib.request.urlopen(asked) as answer:
            return answer.read()


if __name__ == "__main__":
    serve()
