"""Guidance names operations as they are called at the caller's own door."""

import pytest
from tests.kernel.test_registry import EVERYTHING, Params, Result, operation, registry

from kho.kernel.call import Call, Principal
from kho.kernel.errors import NotFound


async def lost(params: Params, call: Call) -> Result:
    raise NotFound(guidance="things/list names them, not 'things/list' nor things-server/things/list; else things/add.")


@pytest.mark.parametrize(("door", "listed"), [("mcp", "things_list"), ("actions", "list_them"), ("cli", "things/list")])
async def test_guidance_is_spelt_for_the_door(door: str, listed: str) -> None:
    get = operation("things.get", run=lost)
    named = operation("things.list", tool="things_list", rpc="things/list", action="list_them")
    nowhere = operation("things.add", tool=None, rpc="things/add", action=None)
    outcome = await registry(get, named, nowhere).call(get, {}, Call(EVERYTHING, door))
    assert outcome.error is not None
    assert outcome.error.guidance == (
        f"{listed} names them, not 'things/list' nor things-server/things/list; else things/add."
    )


async def test_who_lacks_a_scope_is_told_what_has_it() -> None:
    for kind, lacking in (("local", "has at the command line alone"), ("key", "the credential does not have")):
        stranger = Principal("stranger", "acme", frozenset({"*"}), kind)
        found = operation("things.purge", scope="admin")
        error = (await registry(found).call(found, {}, Call(stranger))).error
        assert error is not None
        assert lacking in error.message
        assert "kho keys create NAME --scope admin" in error.guidance
