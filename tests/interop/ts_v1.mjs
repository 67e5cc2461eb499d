// TypeScript SDK, first generation: ts_v1.mjs http URL | stdio COMMAND ARGUMENT...
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { target, tell } from "./story.mjs";

const server = target(process.argv.slice(2));
const transport = server.url ? new StreamableHTTPClientTransport(server.url) : new StdioClientTransport(server);

// The client tells the transport which version was agreed on, and nobody else.
let version;
const passOn = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (agreed) => {
  version = agreed;
  passOn?.(agreed);
};

const client = new Client({ name: "kho-interop", version: "1" });
await client.connect(transport);
const { tools } = await client.listTools();
await tell(
  tools.map((tool) => tool.name),
  (name, args) => client.callTool({ name, arguments: args }),
);
await client.close();
console.log(version);
