"""What an engine is: a place where sandboxes live, and a byte channel to the agent in each.

An engine knows nothing of tools, languages or HTTP, and lets no exception escape but those of `errors`.
"""

from typing import Protocol

from airlock.model import EngineReport, SandboxInfo, SandboxSpec


class Channel(Protocol):
    """A two-way byte stream to an agent. It ends when the sandbox ends; reads then give b""."""

    async def read(self) -> bytes:
        """The next bytes, as soon as there are any; b"" at the end, whatever ended it."""

    async def write(self, data: bytes) -> None:
        """Hand over all of `data`, waiting while the other side is slow. EngineUnavailable if it is gone."""

    async def aclose(self) -> None:
        """Close this end. The sandbox lives on. Idempotent."""


class Engine(Protocol):
    @property
    def name(self) -> str: ...

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        """Make and start a sandbox. Cancelled or failed, it leaves nothing behind."""

    async def get(self, sandbox_id: str) -> SandboxInfo:
        """What the engine knows of it now, ended ones included. SandboxNotFound if nothing."""

    async def list(self) -> list[SandboxInfo]:
        """Every sandbox of this instance of the service, ended and half-made ones included."""

    async def destroy(self, sandbox_id: str) -> None:
        """Kill everything in it and remove all traces but its volume. Idempotent."""

    async def connect(self, sandbox_id: str) -> Channel:
        """Open a channel to the agent. SandboxNotFound if the sandbox is not there."""

    async def check(self) -> EngineReport:
        """Prove that the engine works and say what it enforces. Raises if it can't be used."""

    async def aclose(self) -> None:
        """Give back what the engine holds in this process. Sandboxes live on."""
