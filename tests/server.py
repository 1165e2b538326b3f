"""A web server for the tests: serves a folder on this machine, to pages of every origin, and says nothing."""

import functools
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class QuietHandler(SimpleHTTPRequestHandler):
    def end_headers(self):
        self.send_header("Access-Control-Allow-Origin", "*")  # as a CDN does
        super().end_headers()

    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """Serve `folder`; yields its address, with a slash at the end."""
    handler = functools.partial(QuietHandler, directory=folder)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
