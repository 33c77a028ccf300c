"""The limits that a caller may ask for, and what the service makes of them."""

from typing import Annotated, TypeVar

from pydantic import Field

from airlock.errors import InvalidArguments
from airlock.model import Limits
from airlock.sandbox.pool import default_limits
from airlock.settings import MIB, Settings
from airlock.tools.arguments import WHOLE_NUMBER, Arguments

Number = TypeVar("Number", int, float)


class LimitsArguments(Arguments):
    """What the program may use. A limit that is left out is the service's default.

    The least that can be asked for is what engines can enforce.
    """

    cpus: Annotated[float, Field(ge=0.01, allow_inf_nan=False)] | None = None
    memory_mb: Annotated[int, Field(ge=16), WHOLE_NUMBER] | None = None
    pids: Annotated[int, Field(ge=2), WHOLE_NUMBER] | None = None
    tmp_mb: Annotated[int, Field(ge=1), WHOLE_NUMBER] | None = None
    output_bytes: Annotated[int, Field(ge=1), WHOLE_NUMBER] | None = None


def limits(asked: LimitsArguments, settings: Settings) -> Limits:
    def limit(name: str, value: Number | None, default: Number, most: Number, unit: int = 1) -> Number:
        return default if value is None else at_most(f"limits.{name}", value, most) * unit

    default, s = default_limits(settings), settings
    return Limits(
        cpus=limit("cpus", asked.cpus, default.cpus, s.max_cpus),
        memory_bytes=limit("memory_mb", asked.memory_mb, default.memory_bytes, s.max_memory_mb, MIB),
        pids=limit("pids", asked.pids, default.pids, s.max_pids),
        tmp_bytes=limit("tmp_mb", asked.tmp_mb, default.tmp_bytes, s.max_tmp_mb, MIB),
        output_bytes=limit("output_bytes", asked.output_bytes, default.output_bytes, s.max_output_bytes),
    )


def at_most(field: str, value: Number, most: Number) -> Number:
    if value > most:
        message = f"The most that this service gives is {most}; ask for that or less."
        raise InvalidArguments(
            f"{field}: {message}", details={"fields": [{"field": field, "message": message}], "errors": 1}
        )
    return value
