"""Settings for a command, and the way to say that it can't go on."""

import os
from pathlib import Path

from pydantic import ValidationError
from pydantic_settings import SettingsError

from airlock.settings import Settings


class Failure(Exception):
    """A sentence for the operator, in the place of a traceback."""


def load_settings() -> Settings:
    config = os.environ.get("AIRLOCK_CONFIG")
    if config and not Path(config).is_file():  # pydantic-settings would take it for an empty one
        raise Failure(f"AIRLOCK_CONFIG names no file: {config}")
    try:
        return Settings()
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)
        raise Failure("; ".join(_sentence(one["loc"], one["msg"]) for one in found)) from None
    except (SettingsError, OSError, ValueError) as error:  # a ValueError is a TOML file that is not TOML
        raise Failure(f"the settings can't be read: {error}") from None


def _sentence(location: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    return f"AIRLOCK_{str(location[0]).upper()}: {message}" if location else message
