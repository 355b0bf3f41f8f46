// An agent server as the TypeScript packages make one: POST a JSON array of events, and they come
// back as the Accept header asks, over real HTTP, in pieces of ?size= bytes that end anywhere.
// Prints its port on the first line.

import { createServer } from "node:http";
import { setImmediate as turn } from "node:timers/promises";
import { EventEncoder } from "@ag-ui/encoder";

const server = createServer(async (request, response) => {
  const body = [];
  for await (const part of request) body.push(part);
  const events = JSON.parse(Buffer.concat(body).toString());
  const encoder = new EventEncoder({ accept: request.headers.accept });
  const bytes = Buffer.concat(events.map((event) => encoder.encodeBinary(event)));
  const size = Number(new URL(request.url, "http://host").searchParams.get("size"));
  response.writeHead(200, { "content-type": encoder.getContentType() });
  response.socket.setNoDelay(true);
  for (let at = 0; at < bytes.length; at += size) {
    response.write(bytes.subarray(at, at + size));
    await turn();
  }
  response.end();
});

server.listen(0, "127.0.0.1", () => console.log(server.address().port));
