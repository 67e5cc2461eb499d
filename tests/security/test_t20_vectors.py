"""T20: another tenant's text is found by its vector, or comes out of a cache."""

import pytest
from tests.doors.doors import Served, new_key, served
from tests.stores.fill import until

from kho.doctor import change
from kho.kernel.access import METRICS
from kho.settings import Settings

pytestmark = pytest.mark.anyio
SAME = "The kettle is descaled with vinegar every month."
ASKED = (
    ("search", {"query": SAME}),
    ("query_knowledge", {"query": SAME, "top_k": 20}),
    ("query_experiences", {"keywords": SAME, "limit": 20}),
    ("memory_search", {"query": SAME, "limit": 20}),
    ("query_knowledge_base", {"query": SAME, "top_k": 20}),
    ("recent", {"limit": 20}),
)


async def furnish(hub: Served, key: str, mark: str) -> None:
    """The same text in every slice, with the tenant's mark beside it."""
    about = f"{SAME} {mark}"
    for action, payload in (
        ("remember", {"text": about}),
        ("create_document", {"content": {"body": about}, "metadata": {"title": mark}}),
        ("submit_experience", {"title": mark, "problem_description": SAME, "solution": about}),
        ("memory_add_message", {"conversation_id": mark, "role": "user", "content": about}),
        ("manage_collections", {"action": "create", "collection_name": mark, "collection_type": "fundamental"}),
        ("augment_knowledge", {"content": about, "source": mark, "collection": mark, "title": mark}),
    ):
        answer = await hub.act(action, payload, key=key)
        assert answer.status_code == 200, answer.text


async def test_t20_the_same_text_in_two_tenants_is_found_in_one(both_settings: Settings) -> None:
    hashed = change(both_settings, {"search": {"embedder": {"provider": "hash"}}})
    keys = {"zyxone": await new_key(hashed, "one", "*", METRICS), "zyxtwo": await new_key(hashed, "two", "*", "admin")}
    async with served(hashed, serving=True) as hub:
        for mark, key in keys.items():
            await furnish(hub, key, mark)

        async def vectors_are_there() -> bool:
            shown = (await hub.get("/metrics", authorization=f"Bearer {keys['zyxone']}")).text
            return "kho_vectors_pending 0.0" in shown

        await until(vectors_are_there)
        found: dict[tuple[str, str], bool] = {}
        for _ in range(2):  # the second time from the caches, if there are any
            for mark, key in keys.items():
                [other] = keys.keys() - {mark}
                for action, payload in ASKED:
                    answer = await hub.act(action, payload, key=key)
                    assert answer.status_code == 200, answer.text
                    assert other not in answer.text, (action, mark)
                    found[mark, action] = mark in answer.text
        assert all(found.values()), found
