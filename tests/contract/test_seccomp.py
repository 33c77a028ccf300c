"""Airlock's own seccomp profile, on both engines: common programs don't notice it, attacks do."""

import json

import pytest

from contract.running import MIB, Runner, runner_on

pytestmark = [pytest.mark.anyio, pytest.mark.engines("bubblewrap", "docker")]

PYTHON = {
    "threads": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(16) as pool:
            print(sum(pool.map(abs, range(-100, 0))))
        """,
    "multiprocessing": """
        import multiprocessing
        if __name__ == "__main__":
            for method in ("fork", "spawn", "forkserver"):
                with multiprocessing.get_context(method).Pool(2) as pool:
                    assert pool.map(abs, [-1, -2]) == [1, 2]
            with multiprocessing.Manager() as manager:
                manager.list([1]).append(2)
            print(5050)
        """,
    "asyncio": """
        import asyncio
        async def main():
            child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
            assert (await child.communicate(b"x"))[0] == b"x"
            server = await asyncio.start_server(lambda r, w: w.write(b"hello") or w.close(), "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            assert await reader.read() == b"hello"
            writer.close()
            server.close()
        asyncio.run(main())
        print(5050)
        """,
    "files": """
        import fcntl, mmap, os, shutil, tempfile
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a")
            with open(path, "wb+") as file:
                file.write(bytes(1 << 20))
                file.flush()
                os.fsync(file.fileno())
                fcntl.flock(file, fcntl.LOCK_EX)
                with mmap.mmap(file.fileno(), 0) as memory:
                    memory[0] = 1
            shutil.copy2(path, path + "b")
            os.symlink(path, path + "c")
            os.link(path, path + "d")
            os.mkfifo(path + "e")
            os.rename(path + "d", path + "f")
            assert len(list(os.scandir(folder))) == 5
            descriptor = os.memfd_create("x")
            os.posix_fallocate(descriptor, 0, 4096)
        print(5050)
        """,
    "sqlite": """
        import sqlite3
        with sqlite3.connect("/tmp/db") as db:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("CREATE TABLE t (n)")
            db.executemany("INSERT INTO t VALUES (?)", [(n,) for n in range(101)])
            print(db.execute("SELECT sum(n) FROM t").fetchone()[0])
        """,
    "system": """
        import locale, os, platform, pty, resource, select, signal, socket, time
        assert socket.if_nameindex() == [(1, "lo")]
        socket.getaddrinfo("localhost", 80)
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.pause()
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
        assert os.cpu_count() and platform.machine() and os.getloadavg()
        os.nice(1); os.sched_setaffinity(0, os.sched_getaffinity(0)); os.getrandom(8)
        child, terminal = pty.fork()
        if child == 0:
            os.execvp("tty", ["tty"])
        assert b"/dev/pts/" in os.read(terminal, 100)
        os.waitpid(child, 0)
        print(5050)
        """,
    "numpy, where it is installed": """
        try:
            import numpy
        except ImportError:
            print(5050)
        else:
            assert numpy.linalg.inv(numpy.eye(300)).shape == (300, 300)
            print(numpy.arange(101).sum())
        """,
}

SHELL = {
    "pipelines": "seq 100 | sort -rn | awk '{s += $1} END {print s}'",
    "processes": "sleep 60 & kill $!; wait; ps aux | grep -q main.py && (exec 3<>/tmp/f; flock 3; echo 5050)",
    "git": """
        command -v git >/dev/null || { echo 5050; exit; }
        git init -q r && cd r && git config user.name x && git config user.email x@y.z
        echo 1 > a && git add . && git commit -qm one && git checkout -qb b && echo 2 > a
        git commit -qam two && git gc -q && git fsck 2>&1 && git log --oneline | wc -l | grep -q 2 && echo 5050
        """,
    "node": """
        command -v node >/dev/null || { echo 5050; exit; }
        cat > x.js <<'.'
        const {Worker, isMainThread, parentPort} = require("worker_threads");
        if (!isMainThread) { parentPort.postMessage(50); } else {
          const http = require("http"), fs = require("fs"), {execSync} = require("child_process");
          fs.writeFileSync("/tmp/n", execSync("echo 5000"));
          new Worker(__filename).on("message", n => {
            const server = http.createServer((q, s) => s.end(String(n))).listen(0, "127.0.0.1", () =>
              http.get({host: "127.0.0.1", port: server.address().port}, r => r.on("data", d => {
                console.log(Number(d) + Number(fs.readFileSync("/tmp/n")));
                process.exit();
              })));
          });
        }
        .
        sed -i 's/^        //' x.js; node x.js
        """,
    "gcc": """
        command -v gcc >/dev/null || { echo 5050; exit; }
        echo '#include <stdio.h>\nint main() { int s = 0; for (int i = 101; i--;) s += i; printf("%d", s); }' > a.c
        gcc -O2 -o a a.c && ./a
        """,
    "perl": "command -v perl >/dev/null || { echo 5050; exit; }; perl -e 'fork or exit; wait; print 5050'",
}


@pytest.fixture
async def runner(engine):
    async with runner_on(engine) as runner:
        yield runner


def dedented(text):
    lines = text.strip("\n").splitlines()
    return "\n".join(line.removeprefix("        ") for line in lines)


@pytest.mark.parametrize("name", PYTHON)
async def test_python_programs_work(runner: Runner, name):
    outcome = await runner.python(dedented(PYTHON[name]), limits={"memory_bytes": 512 * MIB})
    assert (outcome.stdout.strip(), outcome.verdict) == (b"5050", ("exited", 0, None)), outcome.stderr


@pytest.mark.parametrize("name", SHELL)
async def test_other_programs_work(runner: Runner, name):
    outcome = await runner.shell(dedented(SHELL[name]), limits={"memory_bytes": 512 * MIB})
    assert (outcome.stdout.strip(), outcome.verdict) == (b"5050", ("exited", 0, None)), outcome.stderr


ATTACKS = """
import ctypes, errno, json, os, platform, socket
libc = ctypes.CDLL(None, use_errno=True)
x86 = platform.machine() == "x86_64"
calls = {
    # No capability is needed for these: what refuses them is the profile.
    "a user namespace": (272 if x86 else 97, 0x10000000),
    "a user namespace by clone": (56 if x86 else 220, 0x10000011, 0, 0, 0, 0),
    "a user namespace by clone3": (435, 0, 88),
    "being traced": (101 if x86 else 117, 0, 0, 0, 0),
    "another's memory": (310 if x86 else 270, os.getpid(), 0, 0, 0, 0, 0),
    "another's descriptor": (438, -1, 0, 0),
    "keys": (250 if x86 else 219, 0, -2, 0, 0, 0),
    "io_uring": (425, 1, 0),
    "faults in user space": (323 if x86 else 282, 1),
    "performance counters": (298 if x86 else 241, 0, 0, -1, -1, 0),
    "addresses that don't move": (135 if x86 else 92, 0x0040000),
}
found = {}
for name, (number, *arguments) in calls.items():
    ctypes.set_errno(0)
    libc.syscall(ctypes.c_long(number), *(ctypes.c_long(each) for each in arguments))
    found[name] = errno.errorcode.get(ctypes.get_errno(), "allowed")
for family in (socket.AF_PACKET, 38, 40):  # AF_ALG, AF_VSOCK
    try:
        socket.socket(family, socket.SOCK_RAW).close()
        found[f"sockets of family {int(family)}"] = "allowed"
    except OSError as error:
        found[f"sockets of family {int(family)}"] = errno.errorcode[error.errno]
print(json.dumps(found))
"""


async def test_attacks_are_refused(runner: Runner):
    outcome = await runner.python(ATTACKS)
    answers = json.loads(outcome.stdout)
    refused = ("EPERM", "ENOSYS", "EAFNOSUPPORT")
    assert len(answers) == 14
    assert {name: answer for name, answer in answers.items() if answer not in refused} == {}
