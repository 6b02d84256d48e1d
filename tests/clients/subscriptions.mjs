// Subscribes with the clients graphql-ws and graphql-sse, and prints what they receive as JSON.
// Arguments: the URL and the value of the header authorization.
import { createClient as createSseClient } from "graphql-sse";
import { createClient as createWsClient } from "graphql-ws";
import WebSocket from "ws";

const [url, authorization] = process.argv.slice(2);
const ws = createWsClient({
  url: url.replace("http", "ws"),
  webSocketImpl: WebSocket,
  connectionParams: async () => ({ authorization }),
});
const sse = createSseClient({ url, headers: async () => ({ authorization }) });

async function results(client, payload) {
  const found = [];
  try {
    for await (const result of client.iterate(payload)) found.push(result);
  } catch (problem) {
    found.push({ refused: problem.map(({ extensions }) => extensions.code) });
  }
  return found;
}

const report = {};
for (const [name, client] of Object.entries({ ws, sse })) {
  report[name] = {
    events: await results(client, { query: "subscription ($to: Int!) { count(to: $to) }", variables: { to: 3 } }),
    query: await results(client, { query: "{ __typename }" }),
    restricted: await results(client, { query: "subscription { watched }" }),
    invalid: await results(client, { query: "subscription { unknown }" }),
    failing: await results(client, { query: "subscription { count(to: 0, fails: true) }" }),
  };
}
process.stdout.write(JSON.stringify(report));
process.exit();
