// Runs `HttpAgent` of @ag-ui/client against an endpoint, once for each line of standard input:
// {"url", "accept"} in, what came of the run out.
import { createInterface } from "node:readline";
import { HttpAgent } from "@ag-ui/client";

class Agent extends HttpAgent {
  requestInit(input) {
    const init = super.requestInit(input);
    return { ...init, headers: { ...init.headers, Accept: this.accept } };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const { url, accept } = JSON.parse(line);
  let contentType;
  const fetchAndLook = async (...request) => {
    const response = await fetch(...request);
    contentType = response.headers.get("content-type");
    return response;
  };
  const agent = new Agent({ url, threadId: "t", fetch: fetchAndLook });
  agent.accept = accept;
  await agent.runAgent({ runId: "r" });
  console.log(JSON.stringify({ contentType, messages: agent.messages, state: agent.state }));
}
