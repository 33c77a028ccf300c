import pytest
from pydantic import ValidationError

from airlock.errors import InvalidArguments
from airlock.model import Limits
from airlock.settings import Settings
from airlock.tools.limits import LimitsArguments, limits

SETTINGS = Settings(max_cpus=2, max_memory_mb=1024, max_pids=100, default_pids=50)


def test_what_is_not_asked_for_is_the_default():
    assert limits(LimitsArguments(), SETTINGS) == Limits(
        cpus=1.0, memory_bytes=512 << 20, pids=50, tmp_bytes=256 << 20, output_bytes=1 << 20
    )


def test_a_part_can_be_asked_for():
    asked = limits(LimitsArguments(memory_mb=64, output_bytes=10), SETTINGS)
    assert (asked.memory_bytes, asked.output_bytes, asked.cpus) == (64 << 20, 10, 1.0)


def test_a_whole_number_is_one_however_it_is_written():
    asked = LimitsArguments.model_validate_json(b'{"pids": 84.0, "cpus": 1}')
    assert (asked.pids, asked.cpus) == (84, 1.0)


def test_the_maximum_itself_can_be_had():
    assert limits(LimitsArguments(cpus=2, pids=100), SETTINGS).pids == 100


@pytest.mark.parametrize(
    "asked",
    [{"cpus": 2.01}, {"memory_mb": 1025}, {"pids": 10**30}, {"tmp_mb": 4097}, {"output_bytes": 1 << 60}],
)
def test_more_than_the_maximum_is_refused(asked: dict):
    (name,) = asked
    with pytest.raises(
        InvalidArguments, match=rf"^limits\.{name}: The most that this service gives is \d"
    ) as caught:
        limits(LimitsArguments(**asked), SETTINGS)
    assert caught.value.details["fields"][0]["field"] == f"limits.{name}"


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", True, 1e-9])
@pytest.mark.parametrize("name", list(LimitsArguments.model_fields))
def test_nonsense_is_refused(name: str, value: object):
    with pytest.raises(ValidationError):
        LimitsArguments(**{name: value})
