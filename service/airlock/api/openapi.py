"""What the OpenAPI document says beyond what FastAPI finds out by itself.

Bodies are parsed by `tools.arguments`, not by FastAPI, so each route names its model here, and `complete`
adds the models, the bounds of this very service, and the ways to present a key.
"""

from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from airlock.api.problems import KINDS, Problem, status_of
from airlock.settings import Settings
from airlock.tools.run_answer import RunAnswer
from airlock.tools.run_code import RunCode
from airlock.tools.run_command import RunCommand

DESCRIPTION = """\
Airlock runs untrusted code in locked containers, with no network and with limits on CPU, memory, processes,
disk, output and time, and streams what it prints.

A program's own failure is a *result*: 200, with a `status`. Anything else is an *error*, whose `code` is for
programs and whose `message` says what to do.
"""
REFERENCE = "#/components/schemas/{model}"
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`"},
    "api_key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
REQUEST_ID = {
    "name": "X-Request-ID",
    "in": "header",
    "description": "Taken over if it is sane, made if not, and returned.",
    "schema": {"type": "string"},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same key and body give the same answer, and run once.",
    "schema": {"type": "string", "pattern": "^[ -~]+$", "minLength": 1, "maxLength": 255},
}


def call_of(model: type[BaseModel]) -> dict[str, Any]:
    """`openapi_extra` of a mutating POST that takes the model as its body."""
    schema = {"$ref": REFERENCE.format(model=model.__name__)}
    return {
        "parameters": [REQUEST_ID, IDEMPOTENCY_KEY],
        "requestBody": {"required": True, "content": {"application/json": {"schema": schema}}},
    }


def problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """`responses` for these statuses, each with the codes that it comes with."""
    return {status: {"model": Problem, "description": ", ".join(_codes(status))} for status in statuses}


def _codes(status: int) -> list[str]:
    return sorted({f"`{kind.code}`" for kind in KINDS if status_of(kind("")) == status})


def complete(app: FastAPI, settings: Settings, *, needs_key: bool) -> None:
    document = app.openapi()  # FastAPI keeps it and serves this very object
    # FastAPI has RunAnswer already, but has lost the nulls in its example.
    models: list[tuple[type[BaseModel], JsonSchemaMode]] = [
        (RunCode, "validation"),
        (RunCommand, "validation"),
        (RunAnswer, "serialization"),
    ]
    _, definitions = models_json_schema(models, ref_template=REFERENCE)
    schemas = document["components"]["schemas"]
    schemas.update(definitions["$defs"])
    for name in ("RunCode", "RunCommand"):
        _bound_timeout(schemas[name]["properties"]["timeout"], settings)
    _bound_limits(schemas["LimitsArguments"]["properties"], settings)
    if needs_key:
        document["components"]["securitySchemes"] = SECURITY_SCHEMES
        document["security"] = [{name: []} for name in SECURITY_SCHEMES]


def _bound_timeout(timeout: dict[str, Any], settings: Settings) -> None:
    timeout["maximum"] = settings.max_timeout
    timeout["default"] = min(timeout["default"], settings.max_timeout)


def _bound_limits(limits: dict[str, Any], settings: Settings) -> None:
    for name, schema in limits.items():
        number, _null = schema["anyOf"]
        number["maximum"] = getattr(settings, f"max_{name}")
        schema["default"] = getattr(settings, f"default_{name}")
