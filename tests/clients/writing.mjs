// Writes notes with the recipes of docs/how-to/client-writes.md. Prints requests, list contents and results as JSON.
import { writeFileSync } from "node:fs";
import { network } from "./fetch_control.mjs";

const [which, address] = process.argv.slice(2);
const report = {};
const NEWEST_20 = { first: 20 };
const BARE = "mutation Bare { createNote(input: { text: \"bare\" }) { note { id } } }";

const clients = {
  async apollo() {
    const { gql } = await import("@apollo/client");
    const notes = await import("./notes.mjs");
    let page = null;
    const list = notes.client.watchQuery({ query: notes.NEWEST, variables: NEWEST_20 });
    const showing = list.subscribe(({ data }) => (page = data?.noteByCreated ?? page));
    const outcome = (promise) =>
      promise.then(
        () => null,
        (error) => error.errors?.[0].extensions.code ?? error.message,
      );
    return {
      notes,
      outcome,
      page: () => page,
      bare: () => notes.client.mutate({ mutation: gql(BARE) }),
      async grown() {
        showing.unsubscribe();
        await notes.client.clearStore();
        const short = notes.client.watchQuery({ query: notes.NEWEST, variables: { first: 2 } });
        const held = () => short.getCurrentResult().data?.noteByCreated;
        short.subscribe(() => {});
        await until("the first page", held);
        await notes.create({ text: "latest" });
        while (held().pageInfo.hasNextPage) {
          const { edges, pageInfo } = held();
          await short.fetchMore({ variables: { after: pageInfo.endCursor } });
          await until("the next page", () => held().edges.length > edges.length);
        }
        return held().edges.map(({ node }) => node.text);
      },
    };
  },
  async urql() {
    const notes = await import("./notes.urql.mjs");
    let page = null;
    notes.client.query(notes.NEWEST, NEWEST_20).subscribe(({ data }) => (page = data?.noteByCreated ?? page));
    const outcome = async (promise) => {
      const { error } = await promise;
      return error ? (error.graphQLErrors[0]?.extensions.code ?? error.networkError.message) : null;
    };
    return {
      notes,
      outcome,
      page: () => page,
      bare: () => notes.client.mutation(BARE, {}).toPromise(),
    };
  },
};

const { notes, outcome, page, bare, grown = () => null } = await clients[which]();
const shown = () => (page()?.edges ?? []).map(({ node }) => node);
const texts = () => shown().map(({ text }) => text);
const note = (text) => shown().find((one) => one.text === text);
const pause = (milliseconds) => new Promise((resume) => setTimeout(resume, milliseconds));

async function until(what, holds) {
  for (let attempt = 0; !holds(); attempt += 1) {
    if (attempt === 1000) throw new Error(`${what} does not appear: ${JSON.stringify(shown())}`);
    await pause(10);
  }
}

async function created(text) {
  const before = network.sent.length;
  const code = await outcome(notes.create({ text }));
  await until(text, () => texts()[0] === text);
  await pause(5); // Creation times of notes must differ by a millisecond.
  const sent = network.sent.slice(before);
  return { code, keys: sent.filter(({ name }) => name === "Create").map(({ key }) => key), sent: sent.length };
}

await until("the list", () => page() !== null);
report.first = await created("one");
report.second = await created("two");
report.texts = texts();

network.lose = 2;
report.replyLost = await created("three");
writeFileSync("silent", "8"); // The server itself makes four attempts.
report.storeSilent = await created("four");

// Holds replies back until the returned function is called.
function hold() {
  let release;
  network.held = new Promise((resume) => (release = resume));
  return release;
}

let release = hold();
const changing = outcome(notes.update(note("one"), { done: true }));
await until("the change", () => note("one").done);
report.before = [note("one").version, await Promise.race([changing, pause(50).then(() => "no answer yet")])];
release();
report.changed = [await changing, note("one").version];

network.lose = 1;
report.changeLost = [await outcome(notes.update(note("one"), { text: "first" })), note("first").version];

const seen = note("first");
const theirs = `mutation { updateNote(input: { id: "${seen.id}", text: "theirs" }) { note { version } } }`;
await network.plain(address, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ query: theirs }),
});
release = hold();
const late = outcome(notes.update(seen, { text: "mine" }));
await until("the refused change", () => note("mine"));
release();
report.conflict = await late;
await until("the version of the other client", () => note("theirs"));
report.afterConflict = [note("theirs").version, texts().includes("mine")];

await outcome(notes.remove(note("two")));
await until("the removal", () => !note("two"));
report.shown = shown().map(({ text, version, done }) => ({ text, version, done }));

network.lose = 1;
const before = network.sent.length;
report.withoutKey = await outcome(bare());
report.withoutKeySent = network.sent.slice(before).length;
report.grown = await grown();

process.stdout.write(JSON.stringify(report));
process.exit();
