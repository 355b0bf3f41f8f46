// An agent server as the TypeScript packages make one: POST a JSON array of events, or an input that
// has them as `forwardedProps.events`, and they come back as the Accept header asks, over real HTTP,
// in pieces of ?size= bytes that end anywhere, compressed if ?gzip=1. An input that is none is
// answered with 422. Prints its port on the first line.

import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { RunAgentInputSchema } from "@ag-ui/core/schemas";
import { EventEncoder } from "@ag-ui/encoder";

const server = createServer(async (request, response) => {
  const body = [];
  for await (const part of request) body.push(part);
  let events = JSON.parse(Buffer.concat(body).toString());
  if (!Array.isArray(events)) {
    const input = RunAgentInputSchema.safeParse(events);
    if (!input.success) {
      response.writeHead(422, { "content-type": "application/json" });
      response.end(JSON.stringify({ issues: input.error.issues }));
      return;
    }
    events = input.data.forwardedProps.events;
  }
  const encoder = new EventEncoder({ accept: request.headers.accept });
  let bytes = Buffer.concat(events.map((event) => encoder.encodeBinary(event)));
  const query = new URL(request.url, "http://host").searchParams;
  const headers = { "content-type": encoder.getContentType() };
  if (query.get("gzip") === "1") {
    headers["content-encoding"] = "gzip";
    bytes = gzipSync(bytes);
  }
  const size = Number(query.get("size"));
  response.writeHead(200, headers);
  response.socket.setNoDelay(true);
  for (let at = 0; at < bytes.length; at += size) {
    response.write(bytes.subarray(at, at + size));
    await turn();
  }
  response.end();
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
