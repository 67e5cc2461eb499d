// What every client does: the same story as story.py tells, with the same texts.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";

const story = JSON.parse(await readFile(new URL("story.json", import.meta.url), "utf8"));

/** `call` gives a tool's result as it came over the wire. */
export async function tell(names, call) {
  assert(names.includes("submit_experience") && names.includes("query_experiences"), `the tools are ${names}`);

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

/** The address or the command to start, from the command line: `http URL` or `stdio COMMAND ARGUMENT...` */
export function target([kind, first, ...rest]) {
  return kind === "http" ? { url: new URL(first) } : { command: first, args: rest, env: process.env, stderr: "inherit" };
}
