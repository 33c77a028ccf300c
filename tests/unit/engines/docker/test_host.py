import asyncio
import ssl
import subprocess

import pytest

from airlock.engines.docker.host import docker_host
from airlock.errors import EngineMisconfigured

pytestmark = pytest.mark.anyio


def test_without_a_word_it_is_the_usual_socket():
    assert docker_host(None, {}).path == "/var/run/docker.sock"


def test_the_setting_wins_over_dockers_own_variable():
    environ = {"DOCKER_HOST": "unix:///a.sock"}
    assert docker_host(None, environ).path == "/a.sock"
    assert docker_host("unix:///b.sock", environ).path == "/b.sock"


def test_tcp_without_tls():
    host = docker_host("tcp://box:2375", {"DOCKER_CERT_PATH": "/nowhere"})
    assert (host.path, host.name, host.port, host.tls) == (None, "box", 2375, None)


@pytest.mark.parametrize(
    "url",
    [
        "ssh://box",
        "npipe:////./pipe/docker_engine",
        "fd://",
        "https://box:2376",
        "/var/run/docker.sock",
        "unix://relative.sock",
        "unix://",
        "tcp://box",
        "tcp://:2375",
        "tcp://box:port",
        "tcp://[box:1",
    ],
)
def test_what_can_not_be_used_is_refused_with_its_name(url):
    with pytest.raises(EngineMisconfigured) as refusal:
        docker_host(url, {})
    assert repr(url) in refusal.value.message


def test_tls_without_its_files_is_refused(tmp_path):
    with pytest.raises(EngineMisconfigured, match=r"ca\.pem"):
        docker_host("tcp://box:2376", {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(tmp_path)})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """One self-signed certificate for `localhost` that is its own authority, for both sides."""
    folder = tmp_path_factory.mktemp("certificates")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"),
            *("-keyout", "key.pem", "-out", "cert.pem"),
        ],
        cwd=folder,
        check=True,
        capture_output=True,
    )
    (folder / "ca.pem").write_bytes((folder / "cert.pem").read_bytes())
    return folder


async def test_with_tls_both_sides_prove_themselves(certificates):
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=certificates / "ca.pem")
    context.load_cert_chain(certificates / "cert.pem", certificates / "key.pem")
    context.verify_mode = ssl.CERT_REQUIRED

    async def serve(reader, writer):
        writer.write(await reader.readexactly(4))
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "localhost", 0, ssl=context) as server:
        port = server.sockets[0].getsockname()[1]
        environ = {"DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(certificates)}
        reader, writer = await docker_host(f"tcp://localhost:{port}", environ).open()
        writer.write(b"ping")
        assert await reader.read() == b"ping"
        writer.close()
        await writer.wait_closed()

        with pytest.raises(ssl.SSLCertVerificationError):  # the name on the certificate is another
            await docker_host(f"tcp://127.0.0.1:{port}", environ).open()
