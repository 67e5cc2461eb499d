// TypeScript SDK, second generation: ts_v2.mjs default|auto http URL | stdio COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { target, tell } from "./story.mjs";

const [mode, ...rest] = process.argv.slice(2);
const server = target(rest);
const transport = server.url ? new StreamableHTTPClientTransport(server.url) : new StdioClientTransport(server);

const options = mode === "auto" ? { versionNegotiation: { mode: "auto" } } : {};
const client = new Client({ name: "kho-interop", version: "1" }, options);
await client.connect(transport);
const { tools } = await client.listTools();
await tell(
  tools.map((tool) => tool.name),
  (name, args) => client.callTool({ name, arguments: args }),
);
const version = client.getNegotiatedProtocolVersion();
await client.close();
console.log(version);
