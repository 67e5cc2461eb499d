"""Contract 004: the five tools as they are printed, over every wire and in both eras; answers are Markdown to read and
JSON to work with."""

import asyncio
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
from tests.contracts.research_hub import EVERYWHERE, NOTES, by_jsonrpc, connected, done, failure, settings_of, text
from tests.doors.doors import ERAS, MODERN, RESEARCH, Json, served

FIVE = ("query_knowledge_base", "manage_collections", "ingest_documents", "manage_projects", "augment_knowledge")
PRINTED = {
    "query_knowledge_base": ({"query", "collections", "top_k", "document_context"}, {"query"}),
    "manage_collections": ({"action", "collection_name", "collection_type", "project_name"}, {"action"}),
    "ingest_documents": ({"path", "collection", "recursive"}, {"path", "collection"}),
    "manage_projects": ({"action", "project_name", "collections"}, {"action"}),
    "augment_knowledge": ({"content", "source", "collection", "title"}, {"content", "source", "collection"}),
}
"""What the contract calls the parameters, and which are required."""


@pytest.mark.requirement("004.server.tools", "004.test.schemas", "004.server.stdio", "004.test.stdio")
@pytest.mark.parametrize(("wire", "era", "database_url"), EVERYWHERE, indirect=["database_url"])
async def test_the_tools_are_listed_with_schemas_that_hold(
    wire: str, era: str, tmp_path: Path, database_url: str | None
) -> None:
    async with connected(wire, era, settings_of(tmp_path, database_url)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        more = {name: text(await client.call_tool("more", {"tool": name})) for name in PRINTED}
    shown = {name: orjson.loads(told.partition("Arguments: ")[2]) for name, told in more.items()}
    assert {*FIVE} < {*RESEARCH} <= tools.keys()
    for name in RESEARCH:
        for schema in (tools[name].input_schema, tools[name].output_schema):
            assert schema is not None
            jsonschema.Draft202012Validator.check_schema(schema)
            jsonschema.Draft7Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "$ref" not in str(schema)
    for name, (parameters, required) in PRINTED.items():
        schema = tools[name].input_schema
        assert parameters <= schema["properties"].keys()
        assert {*schema["required"]} == required
        explained = shown[name]["properties"]
        assert explained.keys() == schema["properties"].keys()
        assert all(one.get("description") for one in explained.values())
    assert tools["query_knowledge_base"].input_schema["properties"]["top_k"]["default"] == 10
    assert tools["ingest_documents"].input_schema["properties"]["recursive"]["default"] is False


@pytest.mark.requirement(
    "004.request.format", "004.response.format", "004.format.markdown", "004.format.metadata", "004.query.response",
    "004.query.collections", "004.query.refinement", "004.ingest.file", "004.ingest.folder", "004.ingest.recursive",
    "004.augment.added", "004.augment.title", "004.collections.create", "004.collections.list",
    "004.collections.info", "004.collections.delete", "004.collections.type", "004.test.end-to-end",
)  # fmt: skip
@pytest.mark.parametrize(("wire", "era", "database_url"), EVERYWHERE, indirect=["database_url"])
async def test_a_story(wire: str, era: str, tmp_path: Path, database_url: str | None) -> None:
    """Create, ingest, ask, add, look, delete: the same on every wire."""
    async with connected(wire, era, settings_of(tmp_path, database_url)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}

        async def call(tool: str, **arguments: Any) -> tuple[Json, str]:
            result = await client.call_tool(tool, arguments)
            assert not result.is_error, text(result)
            found: Any = result.structured_content
            schema = tools[tool].output_schema
            assert schema is not None
            jsonschema.validate(found, schema)
            with pytest.raises(orjson.JSONDecodeError):
                orjson.loads(text(result))  # a person reads it
            return found, text(result)

        made, _ = await call(
            "manage_collections", action="create", collection_name="papers", collection_type="fundamental"
        )
        assert (made["status"], made["collection"]["type"]) == ("success", "fundamental")
        taken, _ = await call("ingest_documents", path="kettle.md", collection="papers")
        assert (taken["status"], taken["job"]["added"]) == ("success", 1)
        taken, _ = await call("ingest_documents", path=".", collection="papers")
        assert (taken["job"]["added"], taken["job"]["unchanged"]) == (1, 1)  # not the folders below
        taken, _ = await call("ingest_documents", path=".", collection="papers", recursive=True)
        assert (taken["job"]["added"], taken["job"]["unchanged"]) == (2, 2)
        found, shown = await call(
            "query_knowledge_base", query="descaling kettles", collections="papers", top_k=3, document_context=None
        )
        check_answer(found)
        best = found["results"][0]
        assert best["source_document"] == "kettle.md"
        assert best["header_path"].endswith("Descaling")
        assert best["metadata"]["document_title"] == "Kettles"
        assert best["relevance_label"] in shown
        assert "Citric acid" in shown
        added, _ = await call(
            "augment_knowledge", content="Vinegar does, too.", source="https://example.org", collection="papers",
            title="Vinegar",
        )  # fmt: skip
        assert (added["outcome"], added["document"]["title"]) == ("added", "Vinegar")
        listed, shown = await call("manage_collections", action="list")
        assert [one["name"] for one in listed["collections"]] == ["papers"]
        assert "papers" in shown
        info, _ = await call("manage_collections", action="info", collection_name="papers")
        assert info["collection"]["documents"] == len(NOTES) + 1
        refusal = await failure(client, era, "manage_collections", {"action": "delete", "collection_name": "papers"})
        assert (refusal.code, "confirm=true" in refusal.guidance) == (-32002, True)
        gone, _ = await call("manage_collections", action="delete", collection_name="papers", confirm=True)
        assert gone["status"] == "success"


def check_answer(found: Json) -> None:
    """The keys of the contract's response, exactly; inside items there may be more (D16)."""
    assert found.keys() == {"status", "results", "query_refinement"}
    assert found["status"] == "success"
    assert found["query_refinement"].keys() >= {"status", "suggestions", "message"}
    assert found["query_refinement"]["status"] in ("optimal", "clarification_needed", "too_broad")
    for one in found["results"]:
        assert one.keys() >= {
            "content", "relevance_score", "relevance_label", "source_document", "header_path", "metadata",
        }  # fmt: skip
        assert one["metadata"].keys() >= {"document_title", "content_type", "chunk_sequence_id"}
        assert one["metadata"]["content_type"] in ("prose", "code_block", "table")
        assert 0 <= one["relevance_score"] <= 1


@pytest.mark.requirement("004.query.top-k", "004.query.content-type", "004.query.labels", "004.query.document-context")
async def test_what_a_question_may_say(tmp_path: Path, database_url: str | None) -> None:
    async with connected("memory", MODERN, settings_of(tmp_path, database_url)) as client:
        await done(client, "manage_collections", action="create", collection_name="papers")
        await done(client, "ingest_documents", path=".", collection="papers", recursive=True)
        for number in range(14):
            await done(
                client, "augment_knowledge", content=f"Otter {number} eats fish number {number * 7}. " + "x" * number,
                source=f"s{number}", collection="papers",
            )  # fmt: skip
        assert len((await done(client, "query_knowledge_base", query="otter fish"))["results"]) == 10
        assert len((await done(client, "query_knowledge_base", query="otter fish", top_k=3))["results"]) == 3
        await done(
            client, "augment_knowledge", content="# Code\n\n```python\nprint(zebra_crossing)\n```\n", source="code",
            collection="papers",
        )  # fmt: skip
        for query, kind in (("e5-small", "table"), ("zebra_crossing", "code_block"), ("con mèo", "prose")):
            best = (await done(client, "query_knowledge_base", query=query))["results"][0]
            assert best["metadata"]["content_type"] == kind
        scores = [(0.9, "Highly Relevant"), (0.7, "Very Relevant"), (0.5, "Relevant"), (0.3, "Somewhat Relevant"),
                  (0, "Low Relevance")]  # fmt: skip
        for one in (await done(client, "query_knowledge_base", query="otter fish number"))["results"]:
            assert one["relevance_label"] == next(name for least, name in scores if one["relevance_score"] >= least)
        for name, topic in (("A", "Volcanoes erupt lava. Falcon here."), ("B", "Bakers knead dough. Falcon here.")):
            await done(client, "augment_knowledge", content=topic, source=name, collection="papers", title=name)
        for around, first in (("lava and volcanoes erupting", "A"), ("dough that bakers knead", "B")):
            found = await done(client, "query_knowledge_base", query="falcon", document_context=around)
            assert found["results"][0]["metadata"]["document_title"] == first


@pytest.mark.requirement(
    "004.projects.create", "004.projects.link", "004.projects.unlink", "004.projects.set-defaults",
    "004.collections.project-name",
)  # fmt: skip
async def test_projects(tmp_path: Path, database_url: str | None) -> None:
    async with connected("memory", MODERN, settings_of(tmp_path, database_url)) as client:
        await done(client, "manage_projects", action="create", project_name="thesis")
        for name in ("papers", "notes"):
            await done(client, "manage_collections", action="create", collection_name=name)
        await done(
            client, "manage_collections", action="create", collection_name="own", collection_type="project-specific",
            project_name="thesis",
        )  # fmt: skip
        linked = await done(
            client, "manage_projects", action="link", project_name="thesis", collections="papers, notes"
        )
        assert linked["project"]["collections"] == ["notes", "own", "papers"]
        left = await done(client, "manage_projects", action="unlink", project_name="thesis", collections="notes")
        assert left["project"]["collections"] == ["own", "papers"]
        chosen = await done(
            client, "manage_projects", action="set-defaults", project_name="thesis", collections=["own"]
        )
        assert chosen["project"]["defaults"] == ["own"]
        asked = await done(client, "query_knowledge_base", query="anything", project="thesis")
        assert asked["query_refinement"]["searched"] == ["own"]


@pytest.mark.requirement("004.format.refinement", "004.format.interactive")
async def test_answers_say_how_to_go_on(tmp_path: Path, database_url: str | None) -> None:
    async with connected("memory", MODERN, settings_of(tmp_path, database_url)) as client:
        nothing = await done(client, "manage_collections", action="list")
        assert 'manage_collections(action="create"' in nothing["message"]
        await done(client, "manage_collections", action="create", collection_name="papers")
        await done(client, "ingest_documents", path=".", collection="papers", recursive=True)
        gap = (await done(client, "query_knowledge_base", query="zzqx wvvk"))["query_refinement"]
        assert gap["status"] == "clarification_needed"
        assert gap["message"]
        refused = await failure(client, MODERN, "query_knowledge_base", {"query": "x", "collections": "paperz"})
        assert "Did you mean 'papers'?" in refused.guidance


@pytest.mark.requirement("004.time.progress")
@pytest.mark.parametrize("era", ERAS)
async def test_a_long_ingest_tells_how_far_it_is(era: str, tmp_path: Path, database_url: str | None) -> None:
    settings = settings_of(tmp_path, database_url)
    for number in range(80):
        (tmp_path / "notes" / f"n{number}.md").write_text(f"# Note {number}\n\nOtter {number}.\n", "utf-8")
    seen: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total))

    async with connected("memory", era, settings) as client:
        await done(client, "manage_collections", action="create", collection_name="papers")
        await client.call_tool("ingest_documents", {"path": ".", "collection": "papers"}, progress_callback=note)
        jobs = await done(client, "ingest_status")
        assert [job["state"] for job in jobs["jobs"]] == ["done"]
        again = await done(client, "ingest_status", job_id=jobs["jobs"][0]["job_id"])
        assert again["jobs"] == jobs["jobs"]
    assert [now for now, _ in seen] == sorted(now for now, _ in seen)
    assert all(total is None or now <= total for now, total in seen)
    assert seen[-1] == (82, 82)


@pytest.mark.requirement("004.time.timeout", "004.errors.system", "004.config.timeouts")
async def test_what_takes_too_long_is_given_up(tmp_path: Path, database_url: str | None) -> None:
    async with served(settings_of(tmp_path, database_url, simple_timeout=1e-9, query_timeout=1e-9)) as hub:
        for tool, arguments, code in (
            ("manage_collections", {"action": "list"}, -32000),
            ("manage_projects", {"action": "list"}, -32000),
            ("knowledge_base_status", {}, -32000),
            ("query_knowledge_base", {"query": "x"}, -32004),
        ):
            error = (await by_jsonrpc(hub, tool, arguments))["error"]
            assert error["code"] == code, (tool, error)
            assert error["data"]["guidance"]


@pytest.mark.requirement("004.test.concurrent", "004.test.large-query")
async def test_many_ask_at_once_and_at_length(tmp_path: Path, database_url: str | None) -> None:
    async with connected("http", MODERN, settings_of(tmp_path, database_url)) as client:
        await done(client, "manage_collections", action="create", collection_name="papers")
        await done(client, "ingest_documents", path=".", collection="papers", recursive=True)
        questions = ["descaling kettles", "con meo ngu", "BM25 rarity of words " * 400] * 8
        answers = await asyncio.gather(*(done(client, "query_knowledge_base", query=one) for one in questions))
        for answer in answers:
            check_answer(answer)
            assert answer["results"]
