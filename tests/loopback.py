"""A web server on this machine that can misbehave."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Site:
    """What the server has and does.

    Args:
        files: contents by name.
        ranges: whether it can give a part of a file.
        breaks: how many bytes it sends before it hangs up, once for each entry; then it behaves.
        status: what it answers instead of a file.
        length: whether it says how long a file is.
        shift: by how many bytes a range is off.
    """

    files: dict[str, bytes]
    ranges: bool = True
    breaks: list[int] = field(default_factory=list)
    status: int = 200
    length: bool = True
    shift: int = 0
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    sent: int = 0
    url: str = ""


class _Handler(BaseHTTPRequestHandler):
    site: Site

    def do_GET(self) -> None:
        site, name, wanted = self.site, self.path.rsplit("/", 1)[-1], self.headers.get("Range")
        site.asked.append((name, wanted))
        if site.status != 200 or name not in site.files:
            self.send_error(site.status if site.status != 200 else 404)
            return
        content, start = site.files[name], 0
        if wanted and site.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start + site.shift}-{len(content) - 1}/{len(content)}")
        else:
            self.send_response(200)
        if site.length:
            self.send_header("Content-Length", str(len(content) - start))
        self.end_headers()
        body = content[start:]
        if site.breaks:
            body = body[: site.breaks.pop(0)]
        site.sent += len(body)
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def serving(files: dict[str, bytes], **options: Any) -> Iterator[Site]:
    """A site on the loopback address, for as long as it is needed."""
    site = Site(files, **options)
    handler = type("Handler", (_Handler,), {"site": site})
    with _Server(("127.0.0.1", 0), handler) as server:
        site.url = f"http://127.0.0.1:{server.server_address[1]}/data/"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield site
        finally:
            server.shutdown()
            thread.join()


def closed_port() -> str:
    """An address at which nobody listens."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        return f"http://127.0.0.1:{server.server_address[1]}/data/"
