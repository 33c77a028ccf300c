"""`airlock serve`: the service, in the foreground, until it is told to stop."""

import argparse
import os
import signal
import socket
import sys
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

import uvicorn
from fastapi import FastAPI

from airlock import __version__
from airlock.api.keys import BadKeys
from airlock.api.logs import logging_to_stderr
from airlock.app import create_app
from airlock.cli.settings import Failure, load_settings
from airlock.settings import Settings

if TYPE_CHECKING:
    from argparse import _SubParsersAction

DRAIN_SECONDS = 5
"""How long runs may still go on after SIGTERM. Docker kills us 10 s after it."""
KEEP_ALIVE_SECONDS = 75


def add_command(commands: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    command = commands.add_parser("serve", help="serve over HTTP; settings come from the environment")
    command.set_defaults(run=_serve)


def _serve(_: argparse.Namespace) -> None:
    settings = load_settings()
    os.umask(0o022)  # sandboxes run as another user, and must reach what is made for them
    _prepare_data_dir(settings)
    try:
        app = create_app(settings)
    except BadKeys as error:
        raise Failure(str(error)) from None
    with _listen(settings) as listener, logging_to_stderr(settings.log_level):
        # uvicorn raises the signal again when it has shut down; this ends us with 0 in the end.
        signal.signal(signal.SIGTERM, _stop)
        signal.signal(signal.SIGINT, _stop)
        signal.signal(signal.SIGHUP, _hang_up)
        Server(app, listener).run(sockets=[listener])


class Server(uvicorn.Server):
    """Says where it serves once it does."""

    def __init__(self, app: FastAPI, listener: socket.socket) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                loop="uvloop",
                http="httptools",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_keep_alive=KEEP_ALIVE_SECONDS,
                timeout_graceful_shutdown=DRAIN_SECONDS,
            )
        )
        self._app = app
        self._listener = listener

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        services = self._app.state.services
        host, port = self._listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        _say(f"Airlock {__version__} serves on http://{shown}:{port} (engine: {services.engine.name})")
        if services.keyring.is_open:
            _say("There is no API key: every program on this machine can call it, as tenant default.")


def _say(line: str) -> None:
    # In one write: `print` makes two where stdout is not buffered, and the log is written at the same time.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _listen(settings: Settings) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        return socket.create_server(address, family=family, backlog=2048)
    except OSError as error:
        raise Failure(f"can't serve on {settings.host}:{settings.port}: {error}") from None


def _prepare_data_dir(settings: Settings) -> None:
    try:
        settings.data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failure(f"AIRLOCK_DATA_DIR can't be made: {error}") from None
    if not os.access(settings.data_dir, os.W_OK | os.X_OK):
        raise Failure(f"AIRLOCK_DATA_DIR {settings.data_dir} is not writable")


def _hang_up(_signal: int, _frame: FrameType | None) -> None:
    """The terminal was closed, which uvicorn does not know of: the same as SIGTERM."""
    signal.raise_signal(signal.SIGTERM)


def _stop(_signal: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)
