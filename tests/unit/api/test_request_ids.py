import httpx
import pytest

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("given", ["abc", "a b/c:d", "x" * 128])
async def test_a_sane_one_is_taken_over(client: httpx.AsyncClient, given: str):
    response = await client.get("/nothing", headers={"X-Request-ID": given})
    assert response.headers["x-request-id"] == given
    assert response.json()["error"]["request_id"] == given


@pytest.mark.parametrize("given", [None, b"", b"x" * 129, b"caf\xe9", b"tab\there"])
async def test_another_is_made(client: httpx.AsyncClient, given: bytes | None):
    headers = {} if given is None else {"X-Request-ID": given}
    response = await client.get("/nothing", headers=headers)
    assert response.headers["x-request-id"].startswith("req_")
    assert response.json()["error"]["request_id"] == response.headers["x-request-id"]


async def test_each_request_has_its_own(client: httpx.AsyncClient):
    ids = {(await client.get("/healthz")).headers["x-request-id"] for _ in range(3)}
    assert len(ids) == 3
