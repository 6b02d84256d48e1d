// What the last request cost: its plan, its price, and what each shard answered.

import type { JSX } from "preact";

import type { ExplainCost, ExplainEntry } from "./api";
import { Panel } from "./panel";
import type { Sent } from "./session";
import { useSession } from "./session";
import { count, plural, units } from "./values";

const MAX_SHARDS = 256;

export const CostPanel = (): JSX.Element => {
  const { catalog, last } = useSession();
  return (
    <Panel title="Cost">
      {last === null && <p class="hint">Nothing was sent yet.</p>}
      {last !== null && (
        <>
          <p>
            The last request took {Math.round(last.milliseconds)} ms in the browser.
            {last.problem !== null && ` It failed: ${last.problem.code}.`}
          </p>
          {!catalog.explain && <p class="notice">You may not see explain output: the server allows it for other groups.</p>}
          {last.failed.length > 0 && <FailedShards sent={last} />}
          {last.explain.map((entry, at) => (
            <Entry key={at} entry={entry} />
          ))}
          <details>
            <summary>Document</summary>
            <pre tabIndex={0}>{last.document.query}</pre>
            <pre tabIndex={0}>{JSON.stringify(last.document.variables, null, 2)}</pre>
          </details>
        </>
      )}
    </Panel>
  );
};

const FailedShards = ({ sent }: { sent: Sent }): JSX.Element => (
  <div class="notice problem" role="alert">
    <p>{plural(sent.failed.length, "shard")} did not answer. Their records follow on later pages, once they answer:</p>
    <ul>
      {sent.failed.map((one) => (
        <li key={one.shard}>
          {one.shard}: {one.code}
        </li>
      ))}
    </ul>
  </div>
);

const Entry = ({ entry }: { entry: ExplainEntry }): JSX.Element => {
  const { catalog } = useSession();
  const cost = entry.write ?? entry.read;
  const estimate = entry.estimate ?? entry.write?.estimate;
  const facts: [string, string][] = [
    ["index", entry.index ?? "primary key"],
    ["conditions", entry.conditions ?? ""],
    ["order", entry.order?.join(", ") ?? ""],
    ["filter", entry.filter?.conditions ?? ""],
    ["fetched by key", entry.fetchesRecords === true ? "yes, the index lacks properties" : ""],
    ["estimate", estimate === undefined ? "" : `${units(estimate.expected)} expected, ${count(estimate.least)} to ${count(estimate.most)}`],
    ["charge", cost?.capacityUnits === undefined ? "" : `${units(cost.capacityUnits)}${cost.estimated === true ? ", by DynamoDB's rules" : ""}`],
    ["price", price(cost, catalog.readUnitPrice)],
    ["reads", readsText(entry.read)],
  ];
  return (
    <section class="entry" aria-label={entry.path.join(".")}>
      <h3>{entry.path.filter((part) => typeof part === "string").join(".")}</h3>
      <p class="hint">{entry.why}</p>
      <dl class="facts">
        {facts
          .filter(([, text]) => text !== "")
          .map(([name, text]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{text}</dd>
            </div>
          ))}
      </dl>
      {entry.hashKeys !== undefined && entry.read !== undefined && <ShardPicture entry={entry} read={entry.read} />}
    </section>
  );
};

const price = (cost: ExplainCost | undefined, readUnitPrice: number): string => {
  const pages = cost?.costPerMillionPages;
  const writes = cost?.costPerMillionWrites;
  if (pages !== undefined) return `${pages} for a million such pages, at ${readUnitPrice} for a million read units`;
  return writes === undefined ? "" : `${writes} for a million such writes`;
};

const readsText = (read: ExplainCost | undefined): string => {
  if (read === undefined) return "";
  const parts = [
    plural(read.reads ?? 0, "read"),
    `in ${plural(read.rounds ?? 0, "round")}`,
    `${plural(read.recordsRead ?? 0, "record")} examined`,
    `${count(read.fetched ?? 0)} fetched by key`,
    `${count(read.returned ?? 0)} returned`,
    `${read.milliseconds ?? 0} ms in the server`,
  ];
  return parts.join(", ");
};

/** A bar for each hash key: how many records of the page it has, or that it did not answer. */
const ShardPicture = ({ entry, read }: { entry: ExplainEntry; read: ExplainCost }): JSX.Element => {
  const failed = read.failedHashKeys ?? {};
  const returned = read.byHashKey ?? {};
  const all = [...new Set([...(entry.hashKeys ?? []), ...Object.keys(returned), ...Object.keys(failed)])];
  const most = Math.max(1, ...Object.values(returned));
  const shown = all.slice(0, MAX_SHARDS);
  return (
    <>
      <h4>Shards</h4>
      <ul class="shards">
        {shown.map((key) => {
          const code = failed[key];
          const records = returned[key] ?? 0;
          return (
            <li key={key} class={code === undefined ? "" : "failed"}>
              <span class="shard-key" title={key}>
                {key}
              </span>
              <span class="bar" aria-hidden="true">
                <span style={{ width: `${(records / most) * 100}%` }} />
              </span>
              <span class="shard-records">{code ?? plural(records, "record")}</span>
            </li>
          );
        })}
      </ul>
      {all.length > shown.length && <p class="hint">and {count(all.length - shown.length)} more</p>}
    </>
  );
};
