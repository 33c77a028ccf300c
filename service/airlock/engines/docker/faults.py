"""What the errors of the SDK and of sockets mean here."""

import logging

import requests
from docker.errors import APIError, DockerException

from airlock.errors import (
    AirlockError,
    Conflict,
    EngineError,
    EngineMisconfigured,
    EngineUnavailable,
    NotFound,
)

log = logging.getLogger(__name__)


AWAY = frozenset({502, 503, 504})
"""Answers for now. A plain 500 is Docker's verdict: asked again it would only blur the reason."""


def is_transient(error: BaseException) -> bool:
    if isinstance(error, APIError):
        return error.status_code in AWAY
    # The socket's file is gone for a moment while the daemon restarts.
    return isinstance(error, requests.ConnectionError | ConnectionError | FileNotFoundError)


def translated(error: Exception) -> AirlockError:
    match error:
        case APIError():
            return _refusal(error)
        case PermissionError():
            # As good as no daemon: where Docker is not asked for by name, another engine serves.
            return EngineUnavailable(
                "Airlock may not use Docker's socket: run it as a member of the group that owns the socket"
            )
        case OSError():
            return _away(error)
        case DockerException():
            return EngineMisconfigured(f"the Docker engine can't be used: {error}")
    return EngineError("the Docker engine gave an answer that can't be understood")


def _refusal(error: APIError) -> AirlockError:
    match error.status_code:
        case 404:
            return NotFound(f"Docker has no such thing: {error.explanation}")
        case 409:
            return Conflict(f"Docker refuses for now: {error.explanation}")
        case status if status in AWAY:
            return _away(error)
    return EngineError(f"the Docker engine answered {error.status_code}: {error.explanation}")


def _away(error: Exception) -> EngineUnavailable:
    log.warning("the Docker engine does not answer: %r", error)
    return EngineUnavailable("the Docker engine does not answer; try again in a moment", retry_after=1)
