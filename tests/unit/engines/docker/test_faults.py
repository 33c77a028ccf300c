import pytest
import requests
from docker.errors import APIError, DockerException

from airlock.engines.docker.faults import is_transient, translated
from airlock.errors import Conflict, EngineError, EngineMisconfigured, EngineUnavailable, NotFound


def answer(status):
    response = requests.Response()
    response.status_code = status
    return APIError("refused", response=response, explanation="because")


@pytest.mark.parametrize(
    ("error", "meaning", "transient"),
    [
        (answer(400), EngineError, False),
        (answer(404), NotFound, False),
        (answer(409), Conflict, False),
        (answer(500), EngineError, False),
        (answer(502), EngineUnavailable, True),
        (answer(503), EngineUnavailable, True),
        (answer(504), EngineUnavailable, True),
        (ConnectionRefusedError(), EngineUnavailable, True),
        (FileNotFoundError(), EngineUnavailable, True),
        (PermissionError(), EngineUnavailable, False),
        (requests.ConnectionError(), EngineUnavailable, True),
        (requests.ReadTimeout(), EngineUnavailable, False),
        (TimeoutError(), EngineUnavailable, False),
        (DockerException(), EngineMisconfigured, False),
        (KeyError("State"), EngineError, False),
    ],
)
def test_every_error_has_one_meaning(error, meaning, transient):
    assert type(translated(error)) is meaning
    assert is_transient(error) is transient


def test_what_is_away_says_when_to_come_back():
    assert translated(ConnectionRefusedError()).retry_after == 1
