"""T2: a caller states another tenant, or roles, in the body of a request."""

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from tests.doors.doors import Served, add_key, new_key, served

from kho.app import open_hub
from kho.settings import Settings

pytestmark = pytest.mark.anyio
DOCUMENT = {"document_id": "plan", "content": {"body": "secret"}, "metadata": {"title": "Plan"}}


async def test_t02_the_tenant_of_the_body_is_never_taken(both_settings: Settings) -> None:
    async with open_hub(both_settings) as opened:
        mine, theirs = await add_key(opened, "acme"), await add_key(opened, "umbrella")
    async with served(both_settings) as hub:
        assert (await hub.act("create_document", DOCUMENT, key=theirs)).status_code == 200
        for stated in (
            {"tenant_id": "umbrella"},
            {"tenant_id": "umbrella", "roles": ["admin"]},
            {"tenant_id": "local"},
        ):
            for action, payload in (("get_document", {"document_id": "plan"}), ("create_document", DOCUMENT)):
                answer = await hub.act(action, payload, key=mine, principal=stated)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
                assert "secret" not in answer.text
        filtered = {"query": "secret", "filters": {"tenant_id": "umbrella"}}
        answer = await hub.act("query_knowledge", filtered, key=mine)
        assert answer.status_code == 403
        asked = await hub.act("list_documents", {"parent_id": "root"}, key=mine)
        assert "plan" not in asked.text, "nothing was written as somebody else"


async def test_t02_the_token_of_this_machine_s_user_speaks_for_no_other_tenant(both_settings: Settings) -> None:
    async with open_hub(both_settings) as opened:
        theirs, token = await add_key(opened, "acme"), opened.local_token.create()
    async with served(both_settings) as hub:
        assert (await hub.act("create_document", DOCUMENT, key=theirs)).status_code == 200
        for stated in ({"sub": "ceo", "tenant_id": "acme"}, {"tenant_id": "acme"}, {"sub": "ceo"}):
            for action, payload in (
                ("get_document", {"document_id": "plan"}),
                ("list_documents", {"parent_id": "root"}),
                ("remember", {"text": "The ceo has said so."}),
            ):
                answer = await hub.act(action, payload, key=token, principal=stated)
                assert (answer.status_code, answer.json()["error"]["code"]) == (403, "FORBIDDEN")
                assert "secret" not in answer.text
        assert "ceo" not in (await hub.act("list_facts", {}, key=theirs)).text
        own = {"sub": both_settings.local.sub, "tenant_id": both_settings.local.tenant}
        for stated in (None, own):
            answer = await hub.act("list_documents", {"parent_id": "root"}, key=token, principal=stated)
            assert answer.status_code == 200
            assert "plan" not in answer.text


async def test_t02_roles_in_the_body_grant_nothing(settings: Settings) -> None:
    key = await new_key(settings, "acme")
    async with served(settings) as hub:
        for roles in (["admin"], ["admin", "*"], "admin"):
            answer = await hub.act("list_keys", {}, key=key, principal={"tenant_id": "acme", "roles": roles})
            assert answer.status_code in (400, 403)
            assert "keys" not in answer.json().get("result", {})


@given(tenant=st.text(max_size=40).filter(lambda text: text != "acme"))
@examples(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_t02_any_other_tenant_is_refused(tenant: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whatever it looks like: the check compares, it does not parse."""
    import asyncio

    async def run() -> None:
        settings = Settings(home=tmp_path_factory.mktemp("t02"), database_url=None)
        key = await new_key(settings, "acme")
        async with served(settings) as hub:
            await _refused(hub, key, tenant)

    asyncio.run(run())


async def _refused(hub: Served, key: str, tenant: str) -> None:
    answer = await hub.act("list_facts", {}, key=key, principal={"tenant_id": tenant})
    assert answer.status_code in (400, 403), tenant
