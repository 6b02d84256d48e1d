// Loads lists with the recipe of docs/how-to/clients.md, and prints their contents and the HTTP methods as JSON.
import { BY_FIRST_NAME, client } from "./client.urql.mjs";

const prefix = process.argv[2];
const MOST_PAGES = 100;
const methods = new Set();
const plain = globalThis.fetch;
globalThis.fetch = (address, options) => {
  methods.add(options.method);
  return plain(address, options);
};

async function page(variables) {
  const { data, error } = await client.query(BY_FIRST_NAME, { prefix, ...variables }).toPromise();
  if (error) throw error;
  return data.userByFirstName;
}

async function loadAll(first, more) {
  let list = await page(first);
  for (let at = 1; more(list); at += 1) {
    if (at === MOST_PAGES) throw new Error("The list does not end.");
    list = await page(more(list, [20, 7, 33][at % 3]));
  }
  return list.edges.map(({ node }) => node.userId);
}

const report = {};
report.forward = await loadAll(
  { first: 20 },
  ({ pageInfo }, size) => pageInfo.hasNextPage && { first: size, after: pageInfo.endCursor },
);
report.backward = await loadAll(
  { last: 20 },
  ({ pageInfo }, size) => pageInfo.hasPreviousPage && { last: size, before: pageInfo.startCursor },
);
report.methods = [...methods];
process.stdout.write(JSON.stringify(report));
process.exit();
