// Calls tools of an MCP server through the official TypeScript SDK, which validates every answer against its schema.
//
// Usage: call_tools.mjs GENERATION PROGRAM ARGUMENT...   a server over stdio
//        call_tools.mjs GENERATION URL TOKEN             a server over HTTP
//
// GENERATION is v1 (the package sdk), v2 (the package client) or modern (the same, asking the server for the version without a
// handshake). Reads the calls as JSON from stdin, [{"tool": ..., "arguments": {...}}, ...], and prints the answers as JSON.

const [generation, server, ...rest] = process.argv.slice(2);

async function load() {
  if (generation !== 'v1') {
    return { ...(await import('@modelcontextprotocol/client')), ...(await import('@modelcontextprotocol/client/stdio')) };
  }
  return {
    ...(await import('@modelcontextprotocol/sdk/client/index.js')),
    ...(await import('@modelcontextprotocol/sdk/client/stdio.js')),
    ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')),
  };
}

const { Client, StdioClientTransport, StreamableHTTPClientTransport } = await load();
const calls = JSON.parse(await new Response(process.stdin).text());
const info = { name: 'proctor-tests', version: '1' };
const client = new Client(info, generation === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {});
const transport = server.startsWith('http://')
  ? new StreamableHTTPClientTransport(new URL(server), { requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } } })
  : new StdioClientTransport({ command: server, args: rest, env: process.env, stderr: 'inherit' });
await client.connect(transport);
const { tools } = await client.listTools();
const progress = [];
const answers = [];
for (const call of calls) {
  const options = { onprogress: (event) => progress.push(event), timeout: 300_000 };
  const params = { name: call.tool, arguments: call.arguments };
  answers.push(await (generation === 'v1' ? client.callTool(params, undefined, options) : client.callTool(params, options)));
}
console.log(JSON.stringify({ server: client.getServerVersion()?.name, tools: tools.map((tool) => tool.name), answers, progress }));
await client.close();
