"""A scripted engine, for unit tests only: each sandbox is a coroutine that plays the agent's part."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from airlock.errors import AirlockError, SandboxNotFound
from airlock.model import EngineReport, Measure, SandboxInfo, SandboxSpec, SandboxState
from airlock_agent import PROTOCOL
from airlock_agent.frames import MAX_BODY, MAX_HEADER, Decoder, Frame, encode

Script = Callable[["ScriptedAgent"], Awaitable[None]]


class ScriptedAgent:
    """What a script sees: the service's frames come in, its own go out."""

    def __init__(self) -> None:
        self.inbox: asyncio.Queue[Frame] = asyncio.Queue()
        self.outbox: asyncio.Queue[bytes] = asyncio.Queue()

    async def expect(self, verb: str) -> Frame:
        frame = await self.inbox.get()
        assert frame.header["verb"] == verb, frame
        return frame

    def say(self, header: dict[str, Any], body: bytes = b"") -> None:
        self.outbox.put_nowait(encode(header, body))

    def hang_up(self) -> None:
        self.outbox.put_nowait(b"")

    async def greet(self) -> None:
        await self.expect("hello")
        languages = ["python", "bash"]
        self.say({"event": "hello", "protocol": PROTOCOL, "python": "3.11.0", "languages": languages})

    async def begin(self) -> Frame:
        """Take hello and start, and agree to both."""
        await self.greet()
        start = await self.expect("start")
        self.say({"event": "reply", "ref": start.header["ref"]})
        return start

    def output(self, start: Frame, stream: str, offset: int, data: bytes) -> None:
        process = start.header["process"]
        self.say({"event": "output", "process": process, "stream": stream, "offset": offset}, data)

    def exit(self, start: Frame, **changes: Any) -> None:
        news = {
            "event": "exit",
            "process": start.header["process"],
            "code": 0,
            "signal": None,
            "reason": None,
        }
        counts = {"stdout": 0, "stderr": 0, "cpu_ms": 1.5, "peak_memory_bytes": 9}
        self.say({**news, **counts, **changes})


class ScriptedChannel:
    def __init__(self, agent: ScriptedAgent) -> None:
        self._agent = agent
        self._decoder = Decoder(MAX_HEADER, MAX_BODY)
        self._ended = False

    async def read(self) -> bytes:
        if self._ended:
            return b""
        data = await self._agent.outbox.get()
        self._ended = not data
        return data

    async def write(self, data: bytes) -> None:
        for frame in self._decoder.feed(data):
            self._agent.inbox.put_nowait(frame)

    async def aclose(self) -> None:
        self._agent.hang_up()


async def greet(agent: ScriptedAgent) -> None:
    await agent.greet()
    await silence(agent)


async def hang_up(agent: ScriptedAgent) -> None:
    agent.hang_up()


async def silence(agent: ScriptedAgent) -> None:
    await asyncio.Event().wait()


class ScriptedEngine:
    name = "scripted"

    def __init__(self, script: Script) -> None:
        self._script = script
        self._sandboxes: dict[str, tuple[SandboxInfo, asyncio.Task[None], ScriptedAgent]] = {}
        self.failure: AirlockError | None = None
        self.specs: list[SandboxSpec] = []
        self.destroyed: list[str] = []
        self.state_after = SandboxState.EXITED
        self.oom_killed = False

    async def create(self, spec: SandboxSpec) -> SandboxInfo:
        self._fail()
        agent = ScriptedAgent()
        info = SandboxInfo(spec.id, SandboxState.RUNNING, spec.owner, datetime.now(UTC))
        self.specs.append(spec)
        self._sandboxes[spec.id] = (info, asyncio.create_task(self._play(agent)), agent)
        return info

    async def _play(self, agent: ScriptedAgent) -> None:
        await self._script(agent)

    def agent(self, sandbox_id: str) -> ScriptedAgent:
        return self._sandboxes[sandbox_id][2]

    async def get(self, sandbox_id: str) -> SandboxInfo:
        self._fail()
        if sandbox_id not in self._sandboxes:
            raise SandboxNotFound(sandbox_id)
        info = self._sandboxes[sandbox_id][0]
        return SandboxInfo(info.id, self.state_after, info.owner, info.created_at, oom_killed=self.oom_killed)

    async def list(self) -> list[SandboxInfo]:
        self._fail()
        return [info for info, _, _ in self._sandboxes.values()]

    async def destroy(self, sandbox_id: str) -> None:
        self._fail()
        self.destroyed.append(sandbox_id)
        if sandbox_id in self._sandboxes:
            _, task, agent = self._sandboxes.pop(sandbox_id)
            task.cancel()
            agent.hang_up()

    async def connect(self, sandbox_id: str) -> ScriptedChannel:
        self._fail()
        return ScriptedChannel(self._sandboxes[sandbox_id][2])

    async def check(self) -> EngineReport:
        self._fail()
        names = ("memory", "cpu", "pids", "disk", "network")
        return EngineReport(self.name, "1", {name: Measure(False, "scripted") for name in names})

    async def aclose(self) -> None:
        pass

    def _fail(self) -> None:
        if self.failure is not None:
            raise self.failure
