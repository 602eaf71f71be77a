"""The protocol of the web server, with an end to its patience: a request whose head never ends is cut off."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

HEAD_SECONDS = 15.0


class PatientProtocol(H11Protocol):
    """Closes a connection on which a request was begun, or none ever came, and whose head is not complete."""

    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A connection: the first head must come in time."""
        super().connection_made(transport)
        # The event loop does this only for sockets that it has made itself, and ours is made before it runs.
        # Without it the body of an answer waits 40 ms for the other side to confirm the head.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Some bytes: the end of a head, or only a part of it."""
        super().data_received(data)
        if getattr(self.cycle, "response_complete", True):  # there may have been no request yet
            self._wait()
        else:
            self._stop_waiting()

    def on_response_complete(self) -> None:
        """An answer: until the next request begins, the limit for idle connections counts."""
        self._stop_waiting()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """The end."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        if self._waiting is None and not self.transport.is_closing():
            self._waiting = self.loop.call_later(HEAD_SECONDS, self._cut_off)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _cut_off(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()
