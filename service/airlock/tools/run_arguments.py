"""The arguments that run_code and run_command have in common."""

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator
from pydantic.config import JsonDict

from airlock.model import Code, Command, RunRequest
from airlock.settings import Settings
from airlock.tools.arguments import MAX_ARGUMENT_BYTES, Argument, Arguments, Name, NulFree, Text
from airlock.tools.limits import LimitsArguments, at_most, limits
from airlock.tools.paths import FilePath, RelativePath

MAX_ARGUMENTS_BYTES = 512 << 10
POINTER_BYTES = 8
"""What the kernel counts for each string of an argv or an environment, on top of its bytes."""
MAX_FILES = 1000

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]


def _names_a_variable(name: str) -> str:
    if not name or "=" in name:
        raise ValueError("the name of an environment variable can't be empty or have `=` in it")
    return name


EnvName = Annotated[
    NulFree,
    AfterValidator(_names_a_variable),
    Field(json_schema_extra={"pattern": r"^[^=\u0000]+$"}),
]
# pydantic puts the pattern of a dict's keys under `patternProperties`, which lets other keys be anything.
ONLY_SUCH_KEYS: JsonDict = {"additionalProperties": False}


class RunArguments(Arguments):
    args: list[Argument] = Field([], description="Arguments of the program.")
    env: dict[EnvName, Argument] = Field(
        {}, description="Environment variables, besides the sandbox's own.", json_schema_extra=ONLY_SUCH_KEYS
    )
    stdin: Text | None = Field(None, description="What the program reads. Without it, it reads end of file.")
    timeout: Seconds = Field(60, description="Seconds of wall time until the program is ended.")
    cwd: RelativePath = Field(".", description="Where it runs, relative to the workspace.")
    files: dict[FilePath, Text] = Field(
        {},
        max_length=MAX_FILES,
        description="Files to lay down in the workspace before the run.",
        json_schema_extra=ONLY_SUCH_KEYS,
    )
    workspace: Name | None = Field(
        None, description="A persistent directory, made if it is not there. Without it, a private empty one."
    )
    sandbox: Name | None = Field(None, description="A kept sandbox to run in.")
    fresh: bool = Field(False, description="Ask for a container that was never used.")
    limits: LimitsArguments = LimitsArguments()

    def argv(self) -> Sequence[str]:
        """What the caller puts into the program's argv."""
        return self.args

    @model_validator(mode="after")
    def _fits_the_kernel(self) -> Self:
        entries = [f"{name}={value}" for name, value in self.env.items()]
        if any(len(entry.encode()) >= MAX_ARGUMENT_BYTES for entry in entries):
            raise ValueError(f"an `env` entry has {MAX_ARGUMENT_BYTES} bytes or more; send it by `files`")
        strings = [*self.argv(), *entries]
        if sum(len(string.encode()) + 1 + POINTER_BYTES for string in strings) > MAX_ARGUMENTS_BYTES:
            raise ValueError(
                f"arguments and environment have over {MAX_ARGUMENTS_BYTES} bytes; "
                "send some by `stdin` or `files`"
            )
        return self


def run_request(arguments: RunArguments, program: Code | Command, settings: Settings) -> RunRequest:
    """The run that the arguments ask for, with the service's defaults and within its bounds."""
    timeout = arguments.timeout
    if "timeout" not in arguments.model_fields_set:
        timeout = min(timeout, settings.max_timeout)
    return RunRequest(
        program=program,
        timeout=at_most("timeout", timeout, settings.max_timeout),
        limits=limits(arguments.limits, settings),
        # A command's arguments are in its argv.
        args=tuple(arguments.args) if isinstance(program, Code) else (),
        env=dict(arguments.env),
        stdin=None if arguments.stdin is None else arguments.stdin.encode(),
        cwd=arguments.cwd,
        files={path: text.encode() for path, text in arguments.files.items()},
        workspace=arguments.workspace,
        sandbox=arguments.sandbox,
        fresh=arguments.fresh,
    )
