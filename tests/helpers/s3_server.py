"""An S3 server on loopback, in memory: moto, with conditional puts one after another.

``python s3_server.py``: prints its port and serves until its input ends. Moto looks whether a
condition holds and then writes, in threads; S3 does that at once, and so does this one.
"""

import subprocess
import sys
import threading
from pathlib import Path

ONE_AT_A_TIME = threading.Lock()


def serve():
    """Serve for ever."""
    from moto.moto_server.werkzeug_app import create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    moto = create_backend_app("s3")

    def app(environ, start_response):
        if environ.keys() & {"HTTP_IF_MATCH", "HTTP_IF_NONE_MATCH"}:
            with ONE_AT_A_TIME:
                return list(moto(environ, start_response))
        return moto(environ, start_response)

    class Quiet(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay

        def log(self, *arguments):
            pass

    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    print(server.server_port, flush=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stdin.read()  # until whoever started it is gone


class Server:
    """A server in a process of its own, with a bucket ``studies``."""

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
        """A client of boto3, for what Geosweep does not do itself."""
        import boto3

        return boto3.client(
            "s3", endpoint_url=self.url, region_name="us-east-1",
            aws_access_key_id="key", aws_secret_access_key="secret",
        )  # fmt: skip

    def stop(self):
        """End it."""
        self.process.kill()
        self.process.communicate()


if __name__ == "__main__":
    serve()
