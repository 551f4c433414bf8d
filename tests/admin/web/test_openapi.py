from __future__ import annotations

from typing import Any

import httpx
from jsonschema import Draft202012Validator

from purgatorio.admin.operations.table import OPERATIONS


def refs(part: Any) -> list[str]:
    """The references in a part of the document."""
    if isinstance(part, dict):
        return [each for key, value in part.items() for each in ([value] if key == "$ref" else refs(value))]
    return [each for value in part for each in refs(value)] if isinstance(part, list) else []


async def test_the_document_has_every_operation(client: httpx.AsyncClient) -> None:
    document = (await client.get("/api/v1/openapi.json")).json()
    assert document["openapi"] == "3.1.0"
    found = {(method.upper(), path) for path, here in document["paths"].items() for method in here}
    assert found == {(each.method, each.public_path()) for each in OPERATIONS}
    ids = [each["operationId"] for here in document["paths"].values() for each in here.values()]
    assert len(set(ids)) == len(ids)


async def test_its_schemas_are_schemas_and_its_references_lead_somewhere(client: httpx.AsyncClient) -> None:
    document = (await client.get("/api/v1/openapi.json")).json()
    for path, here in document["paths"].items():
        for each in here.values():
            parameters = each.get("parameters", [])
            in_path = {parameter["name"] for parameter in parameters if parameter["in"] == "path"}
            assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}
            schemas = [parameter["schema"] for parameter in parameters]
            if "requestBody" in each:
                schemas.append(each["requestBody"]["content"]["application/json"]["schema"])
            for schema in schemas:
                Draft202012Validator.check_schema(schema)
    for ref in refs(document):
        part = document
        for step in ref.removeprefix("#/").split("/"):
            part = part[step]


async def test_a_body_has_its_limits_and_words(client: httpx.AsyncClient) -> None:
    document = (await client.get("/api/v1/openapi.json")).json()
    follower = document["paths"]["/api/v1/brokers/{id}/follower"]["post"]
    schema = follower["requestBody"]["content"]["application/json"]["schema"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["held"]["description"] == "true: send none"
    assert schema["properties"]["delay_ms"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 3_600_000}
    assert follower["security"] == [{}, {"admin": []}]


async def test_a_field_may_be_named_like_what_dispatches(client: httpx.AsyncClient) -> None:
    for name in ("kind", "operator", "request", "self", "rule", "allowed_host"):
        response = await client.post("/api/v1/faults", json={name: 1})
        assert (response.status_code, name in response.json()["error"]) == (400, True)
