"""A forked agent must be indistinguishable from `python3 main.py`: the same programs, run both ways."""

import re

import pytest

from airlock.model import Limits, RunOutput, SandboxSpec, new_id
from airlock.sandbox.link import AgentLink, Exit
from airlock.sandbox.pool import Pool
from airlock.settings import Settings
from contract.python_programs import FILES, PROGRAMS, STDIN
from contract.running import LIMITS, OWNER

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap", "docker"), pytest.mark.timeout(180)]

ADDRESS = re.compile(rb"0x[0-9a-f]{6,}")
WAY = {
    "args": ["one", "two"],
    "env": {"GREETING": "hello"},
    "cwd": ".",
    "timeout": 20,
    "grace": 1,
    "output": {"head": 100_000, "tail": 0, "ceiling": 1 << 30},
}


async def run(link: AgentLink, program: dict, code: bytes = b"") -> tuple:
    process = await link.start(new_id("run"), {**WAY, **program}, code, 1 << 20)
    await process.feed(STDIN)
    output = {"stdout": b"", "stderr": b""}
    while isinstance(news := await process.next(), RunOutput):
        output[news.stream] += news.data
    assert isinstance(news, Exit)
    stdout, stderr = (ADDRESS.sub(b"0x", output[stream]) for stream in ("stdout", "stderr"))
    return stdout, stderr, news.code, news.signal, news.reason


async def test_no_program_can_tell_the_difference(engine):
    pool = Pool(engine, Settings())
    differences = {}
    async with pool.lease(SandboxSpec(new_id("sb"), OWNER, Limits(**LIMITS))) as sandbox:
        link = sandbox.link
        for path, data in FILES.items():
            await link.write_file(path, data)
        for name, code in PROGRAMS.items():
            forked = await run(link, {"language": "python"}, code.encode())
            await link.write_file("main.py", code.encode())
            started = await run(link, {"argv": ["python3", "main.py"]})
            await run(link, {"argv": ["rm", "-rf", "main.py", "__pycache__"], "args": []})
            if forked != started:
                differences[name] = {"forked": forked, "started": started}
    await pool.aclose()
    assert len(PROGRAMS) >= 60
    assert differences == {}


async def test_random_sources_differ_from_run_to_run(engine):
    code = (
        b"import random, secrets, uuid, tempfile\nprint(random.random(), secrets.token_hex(), uuid.uuid4(), "
    )
    code += b"tempfile.mktemp())"
    pool = Pool(engine, Settings())
    async with pool.lease(SandboxSpec(new_id("sb"), OWNER, Limits(**LIMITS))) as sandbox:
        lines = [(await run(sandbox.link, {"language": "python"}, code))[0].split() for _ in range(5)]
    await pool.aclose()
    for values in zip(*lines, strict=True):
        assert len(set(values)) == 5
