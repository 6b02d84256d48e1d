// Loads lists with the recipes of docs/how-to/clients.md, and prints their contents as JSON.
import { rmSync, writeFileSync } from "node:fs";
import { filter, firstValueFrom } from "rxjs";
import { client } from "./client.mjs";
import { BY_FIRST_NAME, BY_LAST_NAME, loadNext, loadNextItems, loadPrevious, refetchRecord } from "./lists.mjs";

const prefix = process.argv[2];
const MOST_PAGES = 100;

class List {
  constructor(query, field, variables) {
    this.field = field;
    this.query = client.watchQuery({ query, variables: { prefix, ...variables } });
    this.query.subscribe({ error() {} });
  }

  async page() {
    const { data, error } = await firstValueFrom(this.query.pipe(filter(({ loading }) => !loading)));
    if (error) throw error;
    return data[this.field];
  }

  async ids() {
    const page = await this.page();
    return (page.items ?? page.edges.map(({ node }) => node)).map(({ userId }) => userId);
  }

  async walk(step, more, sizes) {
    for (let at = 0; more(await this.page()); at += 1) {
      if (at === MOST_PAGES) throw new Error(`${this.field} does not end.`);
      await step(this.query, await this.page(), sizes[at % sizes.length]);
    }
    return this.ids();
  }
}

const report = {};
const reset = () => client.clearStore();
const more = ({ nextToken }) => nextToken !== null;
const after = ({ pageInfo }) => pageInfo.hasNextPage;
const before = ({ pageInfo }) => pageInfo.hasPreviousPage;

const forward = new List(BY_FIRST_NAME, "userByFirstName", { first: 20 });
report.forward = await forward.walk(loadNext, after, [20, 7, 33]);
const other = new List(BY_FIRST_NAME, "userByFirstName", { prefix: "a", first: 20 });
report.otherPrefix = await other.walk(loadNext, after, [20]);
const sameRecords = new List(BY_LAST_NAME, "userByLastName", { limit: 20 });
await sameRecords.walk(loadNextItems, more, [20]);
report.forwardThen = await forward.ids();
const kept = Object.entries(client.cache.extract()).filter(([key]) => key.startsWith("User:"));
report.records = kept.map(([, { userId }]) => userId);
const [[key, { userId }]] = kept;
const { data } = await refetchRecord(client, key.slice("User:".length));
report.again = [userId, data.node.userId];
report.cached = client.cache.readQuery({ query: BY_FIRST_NAME, variables: { prefix, first: 20 } }).userByFirstName.edges.length;

await reset();
const backward = new List(BY_FIRST_NAME, "userByFirstName", { last: 20 });
report.backward = await backward.walk(loadPrevious, before, [20, 7, 33]);

await reset();
const tokens = new List(BY_LAST_NAME, "userByLastName", { limit: 20 });
const first = await tokens.page();
report.tokens = await tokens.walk(loadNextItems, more, [20, 7]);
await loadNextItems(tokens.query, first, 5);
report.tokensAfterAPageCameTwice = await tokens.ids();

await reset();
const failing = new List(BY_FIRST_NAME, "userByFirstName", { first: 20 });
await failing.page();
writeFileSync("failing", "2");
await loadNext(failing.query, await failing.page(), 20);
report.afterTwoFailures = await failing.ids();

await reset();
for (const [name, query, field, size, step] of [
  ["edges", BY_FIRST_NAME, "userByFirstName", { first: 20 }, loadNext],
  ["items", BY_LAST_NAME, "userByLastName", { limit: 20 }, loadNextItems],
]) {
  const list = new List(query, field, size);
  await step(list.query, await list.page(), 20);
  const long = (await list.ids()).length;
  writeFileSync("late", "");
  await step(list.query, await list.page(), 20);
  report[name] = { beforeExpiry: long, afterExpiry: await list.ids() };
  report[name].all = await list.walk(step, name === "edges" ? after : more, [20]);
  rmSync("late");
}

await reset();
writeFileSync("failing", "2");
const partial = new List(BY_LAST_NAME, "userByLastName", { limit: 20, onShardFailure: "PARTIAL" });
report.complete = [(await partial.page()).complete];
report.partial = await partial.walk(loadNextItems, more, [20]);
report.complete.push((await partial.page()).complete);

process.stdout.write(JSON.stringify(report));
process.exit();
