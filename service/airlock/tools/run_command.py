"""run_command: a line for the shell, or an argv."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import ConfigDict, Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator
from pydantic.config import JsonDict

from airlock.model import Command, RunRequest
from airlock.settings import Settings
from airlock.tools.arguments import Argument
from airlock.tools.run_arguments import RunArguments, Seconds, run_request

EXAMPLES: list[JsonDict] = [
    {"command": "npm test", "workspace": "proj1", "timeout": 120},
    {"command": ["grep", "-rn", "TODO", "."], "workspace": "proj1"},
]

Line = Annotated[Argument, Field(min_length=1)]
Argv = Annotated[list[Argument], Field(min_length=1)]


def _line_or_argv(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One sentence, where pydantic would report every member of the union."""
    try:
        return handler(value)
    except ValidationError as error:
        reasons = [e["msg"] for e in error.errors(include_url=False) if e["type"] == "value_error"]
        if reasons:
            raise ValueError(reasons[0].removeprefix("Value error, ")) from None
        raise ValueError("give a line for the shell, or a list of strings, and not an empty one") from None


class RunCommand(RunArguments):
    model_config = ConfigDict(json_schema_extra={"examples": [*EXAMPLES]})

    command: Annotated[
        Line | Argv,
        WrapValidator(_line_or_argv),
        Field(description="A string is for `/bin/sh -lc`, and `args` are its `$1`…; a list is an argv."),
    ]
    timeout: Seconds = Field(30, description="Seconds of wall time until the program is ended.")

    def argv(self) -> Sequence[str]:
        if isinstance(self.command, list):
            return [*self.command, *self.args]
        if self.args:
            return ["/bin/sh", "-lc", self.command, "sh", *self.args]
        return ["/bin/sh", "-lc", self.command]


def request(arguments: RunCommand, settings: Settings) -> RunRequest:
    return run_request(arguments, Command(tuple(arguments.argv())), settings)
