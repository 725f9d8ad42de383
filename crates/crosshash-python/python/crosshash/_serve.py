"""The HTTP service, in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import TracebackType
from typing import Any

from ._onnxruntime import VARIABLE, library

_URL = re.compile(r" at (http://\S+)")


class Server:
    """A running service; a context manager that stops it at the end."""

    def __init__(self, process: subprocess.Popen[str], url: str, lines: list[str]) -> None:
        self._process = process
        #: The address of the page.
        self.url = url
        #: What the service has logged.
        self.log = lines

    @property
    def is_running(self) -> bool:
        """Whether the service has not ended."""
        return self._process.poll() is None

    def stop(self, timeout: float = 30.0) -> None:
        """Stops the service; requests in progress are completed."""
        if self.is_running:
            self._process.send_signal(signal.SIGTERM if os.name == "posix" else signal.SIGBREAK)  # type: ignore[attr-defined,unused-ignore]
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def wait(self) -> int:
        """Waits until the service ends (Ctrl-C stops it) and returns its exit code."""
        try:
            return self._process.wait()
        except KeyboardInterrupt:
            self.stop()
            return self._process.wait()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def __del__(self) -> None:
        try:
            self.stop(1.0)
        except Exception:  # the interpreter may be ending
            pass

    def __repr__(self) -> str:
        return f"Server({self.url!r}{'' if self.is_running else ', stopped'})"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}" target="_blank">{self.url}</a>'


def serve(
    place: Any,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    data: str | os.PathLike[str] | None = None,
    weights: Any = (),
    token: str | None = None,
    options: tuple[str, ...] | list[str] = (),
    timeout: float = 60.0,
) -> Server:
    """Serves a run, an index, or a folder of them, with the search page; returns when it is ready.

    ``port=0`` takes a free port. Addresses that other machines can reach need a ``token``. ``options`` are
    further arguments of ``crosshash serve``.

    >>> import crosshash
    >>> with crosshash.serve("run") as server:  # doctest: +SKIP
    ...     print(server.url)
    """
    path = getattr(place, "path", place)
    if path is None:
        raise ValueError("an index in memory cannot be served: make it in a folder, Index(bits, path)")
    if not os.path.exists(path):
        raise FileNotFoundError(f"{os.fspath(path)}: no such folder")
    folders = [weights] if isinstance(weights, (str, os.PathLike)) else list(weights or ())
    command = [sys.executable, "-m", "crosshash", "serve", os.fspath(path), "--addr", f"{host}:{port}"]
    if data is not None:
        command += ["--data", os.fspath(data)]
    for folder in folders:
        command += ["--weights", os.fspath(folder)]
    environment = dict(os.environ)
    found = library()
    if found:
        environment.setdefault(VARIABLE, found)
    if token is not None:
        environment["CROSSHASH_TOKEN"] = token
    process = subprocess.Popen(
        [*command, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        env=environment,
    )
    lines: list[str] = []
    url: list[str] = []

    def read() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line.rstrip("\n"))
            del lines[:-1000]
            match = _URL.search(line)
            if match and not url:
                url.append(match[1])

    threading.Thread(target=read, daemon=True).start()
    end = time.monotonic() + timeout
    while not url:
        if process.poll() is not None:
            time.sleep(0.1)  # the last lines
            message = "\n".join(lines[-5:]) or f"exit code {process.returncode}"
            raise RuntimeError(f"the service did not start: {message}")
        if time.monotonic() > end:
            process.kill()
            raise TimeoutError(f"the service did not start within {timeout:.0f} s")
        time.sleep(0.02)
    return Server(process, url[0], lines)
