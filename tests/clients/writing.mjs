// Writes notes as docs/client-writes.md says, and prints what was sent, what a list has shown and what was answered.
import { writeFileSync } from "node:fs";
import { wire } from "./wire.mjs";

const [which, address] = process.argv.slice(2);
const told = {};
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
  for (let tried = 0; !holds(); tried += 1) {
    if (tried === 1000) throw new Error(`${what} is not seen, but ${JSON.stringify(shown())}`);
    await pause(10);
  }
}

async function created(text) {
  const before = wire.sent.length;
  const code = await outcome(notes.create({ text }));
  await until(text, () => texts()[0] === text);
  await pause(5); // The next one is newer by its milliseconds too.
  const sent = wire.sent.slice(before);
  return { code, keys: sent.filter(({ name }) => name === "Create").map(({ key }) => key), sent: sent.length };
}

await until("the list", () => page() !== null);
told.first = await created("one");
told.second = await created("two");
told.texts = texts();

wire.lose = 2;
told.replyLost = await created("three");
writeFileSync("silent", "8"); // The server itself asks four times.
told.storeSilent = await created("four");

// Keeps replies back until what this gives is called.
function hold() {
  let release;
  wire.held = new Promise((resume) => (release = resume));
  return release;
}

let release = hold();
const changing = outcome(notes.update(note("one"), { done: true }));
await until("the change", () => note("one").done);
told.before = [note("one").version, await Promise.race([changing, pause(50).then(() => "no answer yet")])];
release();
told.changed = [await changing, note("one").version];

wire.lose = 1;
told.changeLost = [await outcome(notes.update(note("one"), { text: "first" })), note("first").version];

const seen = note("first");
const theirs = `mutation { updateNote(input: { id: "${seen.id}", text: "theirs" }) { note { version } } }`;
await wire.plain(address, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ query: theirs }),
});
release = hold();
const late = outcome(notes.update(seen, { text: "mine" }));
await until("the refused change", () => note("mine"));
release();
told.conflict = await late;
await until("what somebody else has written", () => note("theirs"));
told.afterConflict = [note("theirs").version, texts().includes("mine")];

await outcome(notes.remove(note("two")));
await until("the removal", () => !note("two"));
told.shown = shown().map(({ text, version, done }) => ({ text, version, done }));

wire.lose = 1;
const before = wire.sent.length;
told.withoutKey = await outcome(bare());
told.withoutKeySent = wire.sent.slice(before).length;
told.grown = await grown();

process.stdout.write(JSON.stringify(told));
process.exit();
