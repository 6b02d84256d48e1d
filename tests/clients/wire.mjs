// The way to the server, as a test wants it: what is sent is noted, replies are lost or held back.
const plain = globalThis.fetch;

export const wire = { sent: [], lose: 0, held: Promise.resolve(), plain };

globalThis.fetch = async (address, options) => {
  const { operationName, query, variables } = JSON.parse(options.body);
  wire.sent.push({ name: operationName, key: variables?.idempotencyKey ?? null });
  const reply = await plain(address, options);
  if (wire.lose > 0 && /^\s*mutation\b/.test(query)) {
    wire.lose -= 1;
    await reply.text();
    throw new TypeError("The connection broke before the reply came.");
  }
  await wire.held;
  return reply;
};
