"""T4: a token of somebody else is shown, and the caller's own token must not be passed on.

Until there is a sign-in, no token but an API key is one: each of the eleven kinds of the table is refused, whatever it
says of itself.
"""

import base64
import hmac
import json
import time
from typing import Any

import pytest
from starlette.responses import JSONResponse
from tests.doors.doors import Served, bearer, new_key, served
from tests.models.model_server import serving

from kho.doctor import change
from kho.settings import Settings

pytestmark = pytest.mark.anyio


def jwt(secret: bytes = b"k", alg: str = "HS256", **claims: Any) -> str:
    now = int(time.time())
    said = {"iss": "https://idp.example", "aud": "kho", "sub": "me", "tenant_id": "acme", "exp": now + 600, **claims}
    parts = [json.dumps(part).encode() for part in ({"alg": alg, "typ": "JWT"}, said)]
    signed = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)
    signature = hmac.digest(secret, signed.encode(), "sha256") if alg == "HS256" else b""
    return f"{signed}.{base64.urlsafe_b64encode(signature).decode().rstrip('=')}"


TOKENS = {
    "good": jwt(),
    "wrong audience": jwt(aud="other"),
    "no audience": jwt(aud=None),
    "wrong issuer": jwt(iss="https://evil.example"),
    "expired": jwt(exp=1),
    "no expiry": jwt(exp=None),
    "not yet": jwt(nbf=int(time.time()) + 3600),
    "another key": jwt(b"other"),
    "alg none": jwt(alg="none"),
    "public key as secret": jwt(b"-----BEGIN PUBLIC KEY-----"),
}


async def refused(hub: Served, **headers: str) -> None:
    for path in ("/servers", "/openapi.json", "/mcp", "/metrics"):
        assert (await hub.get(path, **headers)).status_code == 401


@pytest.mark.parametrize("kind", TOKENS)
async def test_t04_a_token_that_is_no_key_of_this_hub_is_refused(settings: Settings, kind: str) -> None:
    await new_key(settings)
    async with served(settings) as hub:
        await refused(hub, **bearer(TOKENS[kind]))


async def test_t04_a_key_counts_in_its_header_alone(settings: Settings) -> None:
    key = await new_key(settings)
    async with served(settings) as hub:
        for name in ("key", "token", "access_token", "authorization", "api_key"):
            assert (await hub.get(f"/servers?{name}={key}")).status_code == 401
        for headers in ({"x-api-key": key}, {"cookie": f"token={key}"}, {"proxy-authorization": f"Bearer {key}"}):
            await refused(hub, **headers)


async def test_t04_what_kho_calls_never_gets_the_caller_s_key(settings: Settings) -> None:
    async def answer(body: Any) -> JSONResponse:
        return JSONResponse({"choices": [{"message": {"role": "assistant", "content": "Descale it."}}]})

    key = await new_key(settings)
    async with serving(answer) as model:
        chosen = change(settings, {"llm": {"url": model.url, "model": "m", "api_key": "of-the-operator"}})
        async with served(chosen) as hub:
            document = {"content": {"body": "Descale the kettle."}, "metadata": {"title": "Kettle"}}
            assert (await hub.act("create_document", document, key=key)).status_code == 200
            await hub.act("query_knowledge", {"query": "kettle", "top_k": 3, "answer": True}, key=key)
            await hub.act("query_knowledge", {"query": "How is the kettle descaled?", "top_k": 3}, key=key)
        assert model.asked, "the model was asked"
        for asked in model.asked:
            assert key not in json.dumps([asked.headers, asked.body])
            assert asked.headers["authorization"] == "Bearer of-the-operator"
