"""All settings, built once, frozen, and passed down.

Each is an environment variable (`AIRLOCK_PORT`), or a key of the TOML file that `AIRLOCK_CONFIG` names
(`port = 8080`). The environment wins.
"""

import hashlib
import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

MIB = 1 << 20
LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})

Positive = Annotated[int, Field(gt=0)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def default_data_dir() -> Path:
    if os.geteuid() == 0:
        return Path("/var/lib/airlock")
    return Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share")) / "airlock"


def default_instance(validated: dict[str, Any]) -> str:
    data_dir = validated.get("data_dir", "")
    return "airlock-" + hashlib.sha256(os.path.abspath(data_dir).encode()).hexdigest()[:8]  # noqa: PTH100


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="AIRLOCK_", frozen=True, extra="ignore")

    # Where it serves, and for whom.
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    data_dir: Path = Field(default_factory=default_data_dir)
    instance: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,30}$")] = Field(
        default_factory=default_instance
    )
    """Marks what is ours on a shared engine. Follows from the data directory, which no two services share."""
    api_keys: SecretStr = SecretStr("")
    """`KEY[:TENANT[:USER[:ROLE+ROLE]]]`, separated by commas."""
    api_keys_file: Path | None = None
    """Hashed keys, as `airlock keys create` writes them."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    # The engine.
    engine: Literal["auto", "docker", "bubblewrap"] = "auto"
    docker_host: str | None = None
    docker_image: str = "airlock-sandbox:latest"
    docker_runtime: str | None = None
    bubblewrap_rootfs: Path | None = None
    """A root file system for sandboxes; the host's own /usr where none is given."""
    bubblewrap_uid: Positive = 10001
    """The host's user that sandboxes run as when the service is root."""
    cgroups: Literal["auto", "off"] = "auto"

    # Warm sandboxes that wait for a run: so many at least, and under load so many at most. 0 and 0 is none.
    pool_min: Annotated[int, Field(ge=0)] = 2
    pool_max: Annotated[int, Field(ge=0)] = 16

    # What a run gets when it does not ask, and what it can ask for at most.
    default_cpus: PositiveFloat = 1.0
    default_memory_mb: Positive = 512
    default_pids: Positive = 256
    default_tmp_mb: Positive = 256
    default_output_bytes: Positive = MIB
    max_cpus: PositiveFloat = 4.0
    max_memory_mb: Positive = 8192
    max_pids: Positive = 4096
    max_tmp_mb: Positive = 4096
    max_output_bytes: Positive = 16 * MIB
    max_timeout: PositiveFloat = 300.0
    output_ceiling_bytes: Positive = 1024 * MIB
    """A program that prints more than this is killed: `output_limit`."""
    kill_grace: Annotated[float, Field(ge=0, le=1.0)] = 1.0
    """Seconds between TERM and KILL when a run's time is up."""

    # The service's own bounds.
    max_body_bytes: Positive = 10 * MIB
    max_runs: Positive = 64
    max_runs_per_tenant: Positive = 16
    idempotency_ttl: Positive = 86_400

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        sources = (init_settings, env_settings)
        config = os.environ.get("AIRLOCK_CONFIG")
        return (*sources, TomlConfigSettingsSource(settings_cls, Path(config))) if config else sources

    @model_validator(mode="after")
    def _needs_a_key_beyond_loopback(self) -> Self:
        has_key = bool(self.api_keys.get_secret_value()) or self.api_keys_file is not None
        if self.host not in LOOPBACK and not has_key:
            raise ValueError(
                f"refusing to serve on {self.host} without an API key: set AIRLOCK_API_KEYS or "
                "AIRLOCK_API_KEYS_FILE, or serve on 127.0.0.1"
            )
        return self
