"""A relay on loopback in front of an S3 server: hands everything on, or does what a broken store does."""

from __future__ import annotations

import socket
import threading
import time

REFUSAL = b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Relay:
    """Listens on ``address`` for clients of the server at ``target``.

    mode: ``pass`` hands bytes on; ``refuse`` answers every request with status 500; ``hang`` keeps what
    comes, and hands it on later if the mode changes; ``cut`` ends connections in the middle; ``slow`` hands
    on 64 bytes at a time.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self.mode = "pass"
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self.mode = "cut"
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for here, there in ((client, server), (server, client)):
                threading.Thread(
                    target=self._hand_on, args=(here, there, here is client), daemon=True
                ).start()

    def _hand_on(self, here: socket.socket, there: socket.socket, from_client: bool) -> None:
        try:
            while data := here.recv(65536):
                while self.mode == "hang":
                    time.sleep(0.02)
                if self.mode == "refuse" and from_client:
                    here.sendall(REFUSAL)
                if self.mode in ("refuse", "cut"):
                    return
                step = 64 if self.mode == "slow" else len(data)
                for start in range(0, len(data), step):
                    there.sendall(data[start : start + step])
                    time.sleep(0.01 if self.mode == "slow" else 0)
        except OSError:
            return  # one of the two has gone
        finally:
            for end in (here, there):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
