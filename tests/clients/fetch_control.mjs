// Replaces fetch: records requests, loses replies, or delays them.
const plain = globalThis.fetch;

export const network = { sent: [], lose: 0, held: Promise.resolve(), plain };

globalThis.fetch = async (address, options) => {
  const { operationName, query, variables } = JSON.parse(options.body);
  network.sent.push({ name: operationName, key: variables?.idempotencyKey ?? null });
  const reply = await plain(address, options);
  if (network.lose > 0 && /^\s*mutation\b/.test(query)) {
    network.lose -= 1;
    await reply.text();
    throw new TypeError("The connection broke before the reply came.");
  }
  await network.held;
  return reply;
};
