"""run_code: a source text in one of the languages."""

from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field
from pydantic.config import JsonDict

from airlock.model import Code, RunRequest
from airlock.settings import Settings
from airlock.tools.arguments import Text
from airlock.tools.run_arguments import RunArguments, run_request
from airlock_agent.languages import LANGUAGES

EXAMPLE: JsonDict = {
    "language": "python",
    "code": "print(1)",
    "args": [],
    "env": {},
    "stdin": None,
    "timeout": 60,
    "cwd": ".",
    "files": {"data.csv": "a,b\n1,2\n"},
    "workspace": None,
    "sandbox": None,
    "fresh": False,
    "limits": {"cpus": 1.0, "memory_mb": 512, "pids": 256, "tmp_mb": 256, "output_bytes": 1048576},
}


def _known(language: str) -> str:
    if language not in LANGUAGES:
        raise ValueError(f"this language is not known; use one of {', '.join(sorted(LANGUAGES))}")
    return language


class RunCode(RunArguments):
    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    language: Annotated[str, AfterValidator(_known), Field(json_schema_extra={"enum": sorted(LANGUAGES)})]
    code: Text = Field(description="The whole program.")


def request(arguments: RunCode, settings: Settings) -> RunRequest:
    return run_request(arguments, Code(arguments.language, arguments.code.encode()), settings)
