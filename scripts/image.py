"""Builds airlock-sandbox:latest, or with the argument `service` airlock-service:latest, if it is out of date.

It speaks to the daemon through the SDK, as the service does, and needs no docker client. Where the public
base can't be pulled, it makes the same from Debian's packages. To take in newer packages, remove the image.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import docker
from docker.errors import APIError, DockerException, ImageNotFound

ROOT = Path(__file__).resolve().parent.parent
SUITE = "bookworm"
PUBLIC_BASE = f"debian:{SUITE}-slim"
OWN_BASE = f"airlock-base:{SUITE}"
LABEL = "airlock.inputs"
REGISTRY_SILENCE = 20
"""Seconds without a word from the registry before the base is made here."""
PASSED_ON = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "PIP_INDEX_URL")
CA_BUNDLES = ("AIRLOCK_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")


class Image(NamedTuple):
    tag: str
    context: Path
    dockerfile: str
    inputs: tuple[str, ...]
    """What it is made from, in the context. While none of it changes, the image is up to date."""


IMAGES = {
    "sandbox": Image(
        tag="airlock-sandbox:latest",
        context=ROOT / "sandbox-image",
        dockerfile="Dockerfile",
        inputs=("Dockerfile", ".dockerignore", "airlock_agent"),
    ),
    "service": Image(
        tag="airlock-service:latest",
        context=ROOT,
        dockerfile="service/Dockerfile",
        inputs=(
            *("service", "sandbox-image/airlock_agent", "pyproject.toml", "requirements.lock"),
            *("LICENSE", "README.md", ".dockerignore"),
        ),
    ),
}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def digest(image: Image) -> str:
    found = hashlib.sha256()
    for path in (image.context / name for name in image.inputs):
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file() and "__pycache__" not in file.parts:
                found.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode())
                found.update(file.read_bytes())
    return found.hexdigest()


def connect(timeout: int = 60) -> docker.DockerClient:
    host = os.environ.get("AIRLOCK_DOCKER_HOST")
    environment = os.environ | {"DOCKER_HOST": host} if host else os.environ
    return docker.from_env(timeout=timeout, environment=environment)


def labels(client: docker.DockerClient, tag: str) -> dict[str, str] | None:
    """The labels of an image; None where there is no such image."""
    try:
        return dict(client.images.get(tag).labels)
    except ImageNotFound:
        return None


def base(client: docker.DockerClient) -> str:
    for tag in (PUBLIC_BASE, OWN_BASE):
        if labels(client, tag) is not None:
            return tag
    try:
        say(f"Pulling {PUBLIC_BASE}")
        connect(REGISTRY_SILENCE).images.pull(PUBLIC_BASE)
    except (APIError, OSError):
        say("It can't be pulled. Making the same from Debian's packages, which takes a minute")
        make_base(client)
        return OWN_BASE
    return PUBLIC_BASE


def make_base(client: docker.DockerClient) -> None:
    with tempfile.NamedTemporaryFile(suffix=".tar") as tar:
        if subprocess.run([str(ROOT / "scripts/base"), SUITE], stdout=tar, check=False).returncode:
            sys.exit("The base image could not be made.")
        repository, tag = OWN_BASE.split(":")
        client.api.import_image_from_file(tar.name, repository=repository, tag=tag)


@contextmanager
def ca_bundle() -> Iterator[None]:
    """For a build behind a proxy that re-signs TLS: puts the certificates of this machine in the context."""
    source = next((os.environ[name] for name in CA_BUNDLES if os.environ.get(name)), None)
    target = ROOT / "ca-bundle.crt"
    if source is None or target.exists():
        yield
        return
    try:
        shutil.copy(source, target)
        yield
    finally:
        target.unlink(missing_ok=True)


def build(client: docker.DockerClient, image: Image, inputs: str) -> None:
    arguments = {name: value for name, value in os.environ.items() if name.upper() in PASSED_ON}
    with ca_bundle():
        events = client.api.build(
            path=str(image.context),
            dockerfile=image.dockerfile,
            tag=image.tag,
            buildargs={**arguments, "BASE": base(client)},
            labels={LABEL: inputs},
            network_mode="host",
            rm=True,
            forcerm=True,
            decode=True,
        )
        tail: deque[str] = deque(maxlen=30)
        for event in events:
            text = event.get("stream", "").rstrip()
            tail.append(text)
            if text.startswith("Step "):
                say(text[:100])
            if "error" in event:
                sys.exit("\n".join([*tail, f"{image.tag} could not be built: {event['error']}"]))


def main() -> None:
    image = IMAGES[sys.argv[1] if len(sys.argv) > 1 else "sandbox"]
    inputs = digest(image)
    try:
        client = connect()
        client.ping()
    except (DockerException, OSError) as error:
        sys.exit(f"No Docker daemon can be used here: {error}")
    try:
        if (labels(client, image.tag) or {}).get(LABEL) == inputs:
            return
        say(f"Building {image.tag}")
        build(client, image, inputs)
    except DockerException as error:
        sys.exit(f"{image.tag} could not be built: {error}")


if __name__ == "__main__":
    main()
