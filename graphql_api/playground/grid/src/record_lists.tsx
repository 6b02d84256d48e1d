// Pages of joined records, and the history of a record.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

import { asProblem, Problem } from "./api";
import type { Entity, Join } from "./catalog";
import { entityOf } from "./catalog";
import type { Document } from "./documents";
import { defaultNames, joinDocument, pageDocument, pageOf } from "./documents";
import type { Row } from "./page_store";
import { ProblemNotice } from "./problem_notice";
import { useSession } from "./session";
import { formatCell, formatId, formatText } from "./values";
import type { View } from "./view_state";
import { searchOf, viewOf } from "./view_state";

const SIZE = 5;

interface ListProps {
  title: string;
  hint: string | null;
  entity: Entity;
  document: (token: string | null) => Document;
  /** The connection in the data. */
  connection: (data: Record<string, unknown>) => unknown;
  /** The view that shows all of them in the grid, if there is one. */
  all: View | null;
}

/** A list that reads its pages on demand. */
const PagedList = ({ title, hint, entity, document, connection, all }: ListProps): JSX.Element => {
  const { run, show } = useSession();
  const [rows, setRows] = useState<Row[] | null>(null);
  const [token, setToken] = useState<string | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const isOpen = useRef(true);
  useEffect(() => () => void (isOpen.current = false), []);
  const read = (): void => {
    setProblem(null);
    run(document(token)).then(
      ({ data, problems }) => {
        if (!isOpen.current) return;
        const found = connection(data);
        if (problems[0] !== undefined || found === null || found === undefined) {
          setProblem(problems[0] ?? null);
          return;
        }
        const page = pageOf(found);
        setRows([...(rows ?? []), ...page.rows]);
        setToken(page.nextToken);
      },
      (failure: unknown) => isOpen.current && setProblem(asProblem(failure)),
    );
  };
  const names = defaultNames(entity);
  return (
    <section class="list" aria-label={title}>
      <h3>{title}</h3>
      {hint !== null && <p class="hint">{hint}</p>}
      {rows !== null && (
        <ul>
          {rows.map((row) => (
            <li key={row.id}>
              <button type="button" class="link" onClick={() => show({ ...(all ?? {}), entity: entity.name, panel: "record", record: row.id })}>
                {names.map((name) => formatCell(row[name])).filter((text) => text !== "").join(" · ") || row.id}
              </button>
            </li>
          ))}
        </ul>
      )}
      {rows?.length === 0 && <p class="hint">There are none.</p>}
      {problem !== null && <ProblemNotice problem={problem} retry={read} />}
      <div class="actions">
        {(rows === null || token !== null) && (
          <button type="button" onClick={read} aria-label={`${rows === null ? "Show" : "More"} ${title}`}>
            {rows === null ? "Show" : "More"}
          </button>
        )}
        {all !== null && (
          <button type="button" onClick={() => show(all)} aria-label={`Open ${title} in the grid`}>
            Open in the grid
          </button>
        )}
      </div>
    </section>
  );
};

export const JoinList = ({ entity, record, join }: { entity: Entity; record: Row; join: Join }): JSX.Element => {
  const { catalog } = useSession();
  const target = entityOf(catalog, join.target) as Entity;
  return (
    <PagedList
      title={join.name}
      hint={join.description}
      entity={target}
      document={(token) => joinDocument(catalog, entity, join, record.id, SIZE, token)}
      connection={(data) => (data["node"] as Record<string, unknown> | null)?.[join.name]}
      all={joinView(target, record, join)}
    />
  );
};

/** The view of the grid with the records of a join; null if its arguments are no single values. */
const joinView = (target: Entity, record: Row, join: Join): View | null => {
  const search = searchOf(target, join.search ?? "");
  const values = join.by.map((name) => record[name]);
  if (search === undefined || values.some((value) => value === null || value === undefined || typeof value === "object")) return null;
  const where = search.isPrimary
    ? { id: formatId(values, target.separator) }
    : Object.fromEntries(join.arguments.map((name, at) => [name, formatText(values[at])]));
  return search.required.every((one) => one.argument in where) ? viewOf(target, search, where) : null;
};

export const HistoryList = ({ entity, record }: { entity: Entity; record: Row }): JSX.Element | null => {
  const { catalog } = useSession();
  const search = entity.searches.find((one) => one.isPrimary);
  if (search === undefined) return null;
  const id = formatId(entity.ids.map((name) => record[name]), entity.separator);
  const view = { ...viewOf(entity, search, { id }), reverse: true };
  return (
    <PagedList
      title="History"
      hint={`All ${entity.name} records with this ${entity.ids.join(" and ")}, the latest first.`}
      entity={entity}
      document={(token) => pageDocument(catalog, entity, search, view, defaultNames(entity), SIZE, token)}
      connection={(data) => data[search.field]}
      all={view}
    />
  );
};
