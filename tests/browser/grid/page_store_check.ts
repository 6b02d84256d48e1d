// Checks the store of pages and the scale of scrolling with more rows than a browser test can read.
// Prints what it measured as JSON; tests/browser/grid/test_page_store.py compares it.

import { LIMITS, PageStore, type ReadPage } from "../../../graphql_api/playground/grid/src/page_store";
import { ScrollScale } from "../../../graphql_api/playground/grid/src/scroll_scale";

const total = 230_000;
let requests = 0;

/** A result of numbers. The token of a page is its first number. */
const read = async (token: string | null, limit: number): Promise<ReadPage> => {
  requests += 1;
  const start = Number(token ?? 0);
  const end = Math.min(total, start + limit);
  const rows = Array.from({ length: end - start }, (_, at) => ({ id: String(start + at) }));
  return { rows, nextToken: end < total ? String(end) : null, stoppedBy: null, failed: [] };
};

/** Wait until the store reads no more. */
const settled = async (store: PageStore): Promise<void> => {
  for (let at = 0; at < 1000 && store.isReading; at += 1) await new Promise((resolve) => setImmediate(resolve));
};

const store = new PageStore(read, () => {});
let mostTokens = 0;
let mostRecords = 0;
for (let first = 0; first < total; first += 50) {
  store.show(first, first + 50);
  await settled(store);
  mostTokens = Math.max(mostTokens, store.kept.tokens);
  mostRecords = Math.max(mostRecords, store.kept.records);
}
const readForward = requests;
const wrong: number[] = [];
let mostRequests = 0;
let seed = 7;
for (let jump = 0; jump < 500; jump += 1) {
  seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
  const row = seed % (total - 30);
  requests = 0;
  store.show(row, row + 30);
  await settled(store);
  mostRequests = Math.max(mostRequests, requests);
  mostRecords = Math.max(mostRecords, store.kept.records);
  mostTokens = Math.max(mostTokens, store.kept.tokens);
  for (let at = row; at <= row + 30; at += 1) if (store.row(at)?.id !== String(at)) wrong.push(at);
}

// Pages that spend the read budget without a match: the store stops asking until the reader goes on.
let budgetRequests = 0;
const readNothing = async (): Promise<ReadPage> => {
  budgetRequests += 1;
  return { rows: [], nextToken: String(budgetRequests), stoppedBy: "BUDGET", failed: [] };
};
const sparse = new PageStore(readNothing, () => {});
sparse.show(0, 30);
await settled(sparse);
const pausedAfter = sparse.isPaused ? budgetRequests : 0;
sparse.show(0, 40);
await settled(sparse);
const whilePaused = budgetRequests - pausedAfter;
sparse.resume();
await settled(sparse);
const afterResume = sparse.isPaused ? budgetRequests - pausedAfter : 0;

// Content of 100 million pixels in an element of 8 million: small steps are exact, and both ends are reached.
const scale = new ScrollScale(100_000_000, 600, 8_000_000);
let physical = 4_000_000;
scale.follow(physical);
const middle = scale.top;
let inexact = 0;
for (let step = 0; step < 1000; step += 1) {
  const before = scale.top;
  physical += 100;
  scale.follow(physical);
  if (scale.top - before !== 100) inexact += 1;
}
physical = scale.settle();
const settledTop = scale.top;
scale.follow(physical);
const moved = scale.top - settledTop;
scale.follow(8_000_000 - 600);
const end = scale.top;
scale.follow(0);

console.log(
  JSON.stringify({
    seen: store.seen,
    ended: store.ended,
    readForward,
    wrong,
    mostTokens,
    mostRecords,
    mostRequests,
    limits: LIMITS,
    budget: { pausedAfter, whilePaused, afterResume },
    scale: { middle, inexact, moved, end, start: scale.top },
  }),
);
