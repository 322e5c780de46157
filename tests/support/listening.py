"""A server in a thread that ends at once; the library's own looks now and then whether it should."""

from __future__ import annotations

import socket
import socketserver
import threading


class Listening(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """Answers each connection in a thread of its own, from ``begin`` to ``end``."""

    daemon_threads = True
    _ending = False

    def begin(self) -> None:
        """Take connections in."""
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self) -> None:
        while not self._ending:
            try:
                request, address = self.get_request()
            except OSError:  # it ends, or whoever asked has gone
                continue
            self.process_request(request, address)

    def end(self) -> None:
        """Take no more connections in, and give the port back; those that are open stay so."""
        self._ending = True
        self.socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self.server_close()
