"""A real web server in a thread, for what only a real connection shows."""

import contextlib
import json
import socket
import threading

import uvicorn
from tests.agency.server.real_server import wait_until


@contextlib.contextmanager
def listening(app):
    """Serves an application on a free port; yields host and port."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(
        uvicorn.Config(app, http="h11", ws="none", log_config=None, access_log=False, lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    try:
        yield listener.getsockname()[:2]
    finally:
        server.should_exit = True
        thread.join(120)
        listener.close()


class RawConnection:
    """Bytes in, bytes out: for requests that no client library would send."""

    def __init__(self, address):
        self._socket = socket.create_connection(address, timeout=120)

    def send(self, content):
        self._socket.sendall(content)

    def head(self, method, path, **headers):
        lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send(("\r\n".join(lines) + "\r\n\r\n").encode())

    def answer(self):
        """Everything until the other side closes, or until the answer is complete: status and document."""
        content = b""
        with contextlib.suppress(ConnectionError):
            while chunk := self._socket.recv(65536):
                content += chunk
                head, found, body = content.partition(b"\r\n\r\n")
                length = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                if found and length and len(body) >= int(length[0].split(b":")[1]):
                    break
        if not content:
            return None, None
        head, _, body = content.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body) if body else None

    def close(self):
        self._socket.close()
