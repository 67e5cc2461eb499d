// What every client does: the same story as story.py tells, with the same texts.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const story = JSON.parse(await readFile(new URL("story.json", import.meta.url), "utf8"));

/** `call` gives a tool's result as it came over the wire. */
export async function tell(names, call) {
  for (const name of ["submit_experience", "query_experiences", "memory_add_message", "search", "fetch"])
    assert(names.includes(name), `the tools are ${names}`);
  await facts(call);
  await experiences(call);
  await memory(call);
}

/** Search and fetch in the form that ChatGPT reads: fixed keys, and the same JSON as text. */
async function facts(call) {
  const remembered = await call("remember", { text: story.fact });
  const id = `fact:${remembered.structuredContent.id}`;
  const found = await call("search", { query: story.asked });
  const hit = found.structuredContent.results.find((one) => one.id === id);
  assert(hit, `${id} is not among the results`);
  for (const key of ["id", "title", "url"]) assert.equal(typeof hit[key], "string");
  const fetched = await call("fetch", { id });
  assert.deepEqual(Object.keys(fetched.structuredContent).sort(), ["id", "metadata", "text", "title", "url"]);
  assert.equal(fetched.structuredContent.text, story.fact);
  for (const { content, structuredContent } of [found, fetched]) {
    assert.equal(content.length, 1);
    assert.deepEqual(JSON.parse(content[0].text), structuredContent);
  }
}

async function experiences(call) {
  const submitted = await call("submit_experience", story.record);
  assert(!submitted.isError, JSON.stringify(submitted));
  const { id } = submitted.structuredContent.data;

  for (const keywords of story.queries) {
    const found = await call("query_experiences", { keywords, limit: 50 });
    assert(!found.isError, JSON.stringify(found));
    const hit = found.structuredContent.data.experiences.find((experience) => experience.id === id);
    assert(hit, `${keywords}: ${id} is not among the matches`);
    for (const [field, value] of Object.entries(story.record)) assert.deepEqual(hit[field], value);
  }

  const refused = await call("query_experiences", { keywords: "" });
  assert.equal(refused.isError, true);
  assert.equal(refused.structuredContent.error.code, "INVALID_KEYWORDS");
}

async function memory(call) {
  const conversation = (await call("memory_get_or_create", {})).structuredContent;
  for (const message of story.said) {
    const done = await call("memory_add_message", { ...conversation, ...message });
    assert.deepEqual(done.structuredContent, { status: "success", ...conversation });
  }
  const context = await call("memory_get_context", { ...conversation, max_messages: 20 });
  const messages = context.structuredContent.messages;
  assert.deepEqual(messages.map(({ role, content }) => ({ role, content })), story.said);

  await call("memory_delete", conversation);
  const gone = await call("memory_get_context", conversation);
  assert.equal(gone.isError, true);
  assert.equal(gone.structuredContent.error.code, "CONVERSATION_NOT_FOUND");
}

/** The address or the command to start, from the command line: `http URL` or `stdio COMMAND ARGUMENT...` */
export function target([kind, first, ...rest]) {
  return kind === "http" ? { url: new URL(first) } : { command: first, args: rest, env: process.env, stderr: "inherit" };
}
