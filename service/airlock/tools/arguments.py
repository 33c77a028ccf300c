"""What the arguments of every tool are made of, and how bad ones are told.

Arguments are parsed by pydantic from the raw bytes: its parser bounds nesting and refuses what is not
UTF-8, lone surrogates included, where `json.loads` would raise RecursionError or let them pass.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, from_json

from airlock.errors import InvalidArguments, InvalidJson

MAX_ARGUMENT_BYTES = 128 << 10
"""The kernel's MAX_ARG_STRLEN, for one string of an argv or an environment, its ending NUL included."""

MAX_ENTRIES = 1 << 16
SHOWN_ERRORS = 10
SHOWN_CHARACTERS = 80


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _encodable(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("it has a lone surrogate, which is no character; send valid Unicode") from None
    return text


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("it has a NUL byte, which the kernel does not take here; take it out")
    return text


def _short_enough(text: str) -> str:
    if len(text.encode()) >= MAX_ARGUMENT_BYTES:
        raise ValueError(f"it has {MAX_ARGUMENT_BYTES} bytes or more; send it by `stdin` or `files` instead")
    return text


def _integral(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE_NUMBER = BeforeValidator(_integral)
"""For an int: JSON has one kind of number, and some callers write 84 as 84.0."""

Text = Annotated[str, AfterValidator(_encodable)]
NulFree = Annotated[Text, AfterValidator(_without_nul), Field(json_schema_extra={"pattern": r"^[^\u0000]*$"})]
Argument = Annotated[NulFree, AfterValidator(_short_enough)]
"""One string of an argv."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]

A = TypeVar("A", bound=Arguments)


def parse(model: type[A], body: bytes) -> A:
    """The arguments in a JSON body. InvalidJson or InvalidArguments, which names each bad field."""
    _refuse_crowds(body)
    try:
        arguments = model.model_validate_json(body)
    except ValidationError as error:
        raise explained(error.errors(include_url=False, include_input=False)) from None
    _refuse_repeated_names(body)
    return arguments


def _refuse_crowds(body: bytes) -> None:
    """Before each of a million entries gets an error of its own, while everybody else waits."""
    try:
        top = from_json(body)
    except ValueError:
        return  # the model will say it better
    fields = top.values() if isinstance(top, dict) else ()
    for crowd in (top, *fields):
        if isinstance(crowd, dict | list) and len(crowd) > MAX_ENTRIES:
            raise InvalidArguments(f"A list or object has over {MAX_ENTRIES} entries; send fewer.")


def _refuse_repeated_names(body: bytes) -> None:
    """A name that stands twice would be read one way here and another way elsewhere.

    The body was parsed before, so it is valid and not deep, and `json.loads` is safe on it.
    """

    def unique(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) < len(pairs):
            raise InvalidJson("A field stands twice in the same JSON object; send each once.")

    json.loads(body, object_pairs_hook=unique)


def explained(errors: Sequence[ErrorDetails]) -> InvalidArguments:
    """What pydantic found, without the input itself, which may be huge."""
    if errors[0]["type"] == "json_invalid":
        return InvalidJson(f"The body must be a JSON object. {errors[0]['msg']}.")
    fields = [{"field": _field(error["loc"]), "message": _sentence(error)} for error in errors[:SHOWN_ERRORS]]
    first = fields[0]
    return InvalidArguments(
        f"{first['field']}: {first['message']}" if first["field"] else first["message"],
        details={"fields": fields, "errors": len(errors)},
    )


def _field(location: tuple[int | str, ...]) -> str:
    """`limits.cpus`. Parts can be the caller's own words, so each is shortened."""
    return ".".join(str(part)[:SHOWN_CHARACTERS] for part in location if part != "[key]")


def _sentence(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "There is no such field; take it out."
    if error["type"] == "missing":
        return "This field is needed."
    message = error["msg"].removeprefix("Value error, ")
    return message[0].upper() + message[1:]
