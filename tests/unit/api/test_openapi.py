import json
from pathlib import Path

import pytest

from airlock.settings import Settings
from airlock.tools.arguments import parse
from airlock.tools.run_answer import RunAnswer
from airlock.tools.run_code import RunCode
from airlock.tools.run_command import RunCommand
from unit.api.serving import new_app


@pytest.fixture
def document(app) -> dict:
    return app.openapi()


@pytest.mark.parametrize("path", ["/v1/run_code", "/v1/run_command"])
def test_every_answer_is_there(document: dict, path: str):
    operation = document["paths"][path]["post"]
    statuses = ["200", "400", "401", "403", "404", "409", "413", "429", "500", "503"]
    assert sorted(operation["responses"]) == statuses
    assert operation["responses"]["200"]["content"].keys() == {"application/json", "text/event-stream"}
    for status in statuses[1:]:
        schema = operation["responses"][status]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Problem"}
    assert {parameter["name"] for parameter in operation["parameters"]} == {"X-Request-ID", "Idempotency-Key"}


def test_examples_are_valid(document: dict):
    schemas = document["components"]["schemas"]
    for model in (RunCode, RunCommand):
        for example in schemas[model.__name__]["examples"]:
            assert parse(model, json.dumps(example).encode())
    for example in schemas["RunAnswer"]["examples"]:
        assert RunAnswer.model_validate(example).model_dump(mode="json") == example


def test_bounds_are_those_of_this_service(tmp_path: Path):
    settings = Settings(data_dir=tmp_path, max_timeout=20, max_memory_mb=99, default_memory_mb=77)
    schemas = new_app(settings).openapi()["components"]["schemas"]
    timeout = schemas["RunCode"]["properties"]["timeout"]
    assert (timeout["maximum"], timeout["default"]) == (20, 20)
    memory = schemas["LimitsArguments"]["properties"]["memory_mb"]
    assert memory["anyOf"][0] == {"type": "integer", "minimum": 16, "maximum": 99}
    assert memory["default"] == 77


def test_security_is_that_of_this_service(document: dict, tmp_path: Path):
    assert "security" not in document
    keyed = new_app(Settings(data_dir=tmp_path, api_keys="k")).openapi()
    assert keyed["security"] == [{"bearer": []}, {"api_key": []}]
    assert keyed["components"]["securitySchemes"].keys() == {"bearer", "api_key"}
    assert keyed["paths"]["/healthz"]["get"]["security"] == []


def test_no_reference_leads_nowhere(document: dict):
    text = json.dumps(document)
    names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert names <= document["components"]["schemas"].keys()
    assert "#/$defs" not in text
