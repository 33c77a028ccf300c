"""The one place that talks to the Docker daemon: it owns the threads, and tries again what may yet work."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from docker import APIClient
from docker.errors import APIError, DockerException
from docker.tls import TLSConfig
from docker.utils import version_lt
from requests.adapters import HTTPAdapter
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from airlock.engines.docker.channel import DockerChannel, attach
from airlock.engines.docker.faults import is_transient, translated
from airlock.engines.docker.host import DockerHost
from airlock.errors import EngineMisconfigured

API_VERSION = "1.41"
"""The oldest that we know, and so the one to speak unless the daemon has dropped it."""
THREADS = 32
"""So many that a quick look at a sandbox does not queue behind slow starts of others."""
TIMEOUT = 60
CONNECT_TIMEOUT = 5

T = TypeVar("T")


class Daemon:
    """Connects at the first call, and again after every time that the daemon was away."""

    def __init__(self, host: DockerHost) -> None:
        self._host = host
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="docker")
        self._lock = threading.Lock()
        self._client: APIClient | None = None

    async def call(self, function: Callable[[APIClient], T]) -> T:
        """Run `function` in a thread. Cancelled, the thread still runs to its end."""
        loop = asyncio.get_running_loop()

        async def attempt() -> T:
            return await loop.run_in_executor(self._threads, self._run, function)

        return await _persistently(attempt)

    async def attach(self, container: str) -> DockerChannel:
        client = self._client
        version = client.api_version if client else await self.call(lambda api: api.api_version)

        async def attempt() -> DockerChannel:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await attach(self._host, version, container)

        return await _persistently(attempt)

    async def aclose(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
        self._forget()

    def _run(self, function: Callable[[APIClient], T]) -> T:
        try:
            self._host.knock()
            with self._lock:
                client = self._client = self._client or _connect(self._host)
            return function(client)
        except OSError as error:  # the SDK's errors are of this kind too
            if not isinstance(error, APIError):
                self._forget()  # what comes back may be another version of Docker
            raise

    def _forget(self) -> None:
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()


def _connect(host: DockerHost) -> APIClient:
    with _client(host, API_VERSION, CONNECT_TIMEOUT) as probe:
        served = probe.version(api_version=False)
    newest, oldest = served["ApiVersion"], served.get("MinAPIVersion", API_VERSION)
    if version_lt(newest, API_VERSION):
        raise EngineMisconfigured(
            f"the Docker engine speaks API {newest}, and Airlock needs {API_VERSION} or newer: upgrade Docker"
        )
    return _client(host, oldest if version_lt(API_VERSION, oldest) else API_VERSION, TIMEOUT)


def _client(host: DockerHost, version: str, timeout: int) -> APIClient:
    files = host.certificates
    tls = files and TLSConfig(client_cert=(files.cert, files.key), ca_cert=files.ca, verify=True)
    client = APIClient(host.url, version, timeout, tls=tls or False, max_pool_size=THREADS)
    client.trust_env = False  # a proxy for the web is no way to the daemon
    if host.path is None:
        client.mount(client.base_url, HTTPAdapter(pool_maxsize=THREADS))
    return client


async def _persistently(attempt: Callable[[], Awaitable[T]]) -> T:
    retrying = AsyncRetrying(
        retry=retry_if_exception(is_transient),
        stop=stop_after_attempt(4),
        wait=wait_exponential(multiplier=0.05, max=0.5),
        reraise=True,
    )
    try:
        return await retrying(attempt)
    except (OSError, DockerException, ValueError, LookupError) as error:
        raise translated(error) from error
