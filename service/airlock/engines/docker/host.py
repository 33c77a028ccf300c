"""Where the Docker daemon listens, as the SDK and the channel both need to know it."""

import asyncio
import socket
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from airlock.errors import EngineMisconfigured

DEFAULT_HOST = "unix:///var/run/docker.sock"
KNOCK_TIMEOUT = 5


@dataclass(frozen=True, slots=True)
class Certificates:
    """The files of a client that proves itself and wants proof, named as Docker's own client names them."""

    directory: Path

    @property
    def ca(self) -> str:
        return str(self.directory / "ca.pem")

    @property
    def cert(self) -> str:
        return str(self.directory / "cert.pem")

    @property
    def key(self) -> str:
        return str(self.directory / "key.pem")

    def context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca)
        context.load_cert_chain(self.cert, self.key)
        return context


@dataclass(frozen=True, slots=True)
class DockerHost:
    url: str
    path: str | None = None
    """The unix socket; without one, `name` and `port` say where."""
    name: str = ""
    port: int = 0
    certificates: Certificates | None = None
    """TLS is used, and the daemon's certificate verified, where these are given."""
    tls: ssl.SSLContext | None = None

    def knock(self) -> None:
        """OSError if nobody listens on the socket. The SDK tells less, and leaks the socket that it tried."""
        if self.path is not None:
            with socket.socket(socket.AF_UNIX) as door:
                door.settimeout(KNOCK_TIMEOUT)
                door.connect(self.path)

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path is not None:
            return await asyncio.open_unix_connection(self.path)
        reader, writer = await asyncio.open_connection(self.name, self.port, ssl=self.tls)
        # A host that vanishes says nothing: only keep-alive ends a channel to it.
        connection: socket.socket = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return reader, writer


def docker_host(url: str | None, environ: Mapping[str, str]) -> DockerHost:
    """The daemon that `url` names, or Docker's own environment variables, or the usual socket."""
    url = url or environ.get("DOCKER_HOST") or DEFAULT_HOST
    try:
        parts = urlsplit(url)
        name, port = parts.hostname, parts.port
    except ValueError:
        raise EngineMisconfigured(f"the Docker host {url!r} is not a URL") from None
    if parts.scheme == "unix" and not parts.netloc and parts.path:
        return DockerHost(url, path=parts.path)
    if parts.scheme == "tcp" and name and port:
        certificates = _certificates(environ)
        return DockerHost(url, None, name, port, certificates, _context(certificates))
    raise EngineMisconfigured(
        f"the Docker host {url!r} can't be used: give unix:///PATH or tcp://HOST:PORT "
        "in AIRLOCK_DOCKER_HOST or DOCKER_HOST"
    )


def _certificates(environ: Mapping[str, str]) -> Certificates | None:
    if not environ.get("DOCKER_TLS_VERIFY"):
        return None
    return Certificates(Path(environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker"))


def _context(certificates: Certificates | None) -> ssl.SSLContext | None:
    if certificates is None:
        return None
    try:
        return certificates.context()
    except OSError as error:
        raise EngineMisconfigured(
            f"DOCKER_TLS_VERIFY is set, but ca.pem, cert.pem and key.pem can't be used: {error}"
        ) from error
