// The records of one search: bar, tools, grid, and what is to say about them.

import type { JSX } from "preact";
import { useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

import { asProblem, Problem } from "./api";
import type { Entity } from "./catalog";
import { isAllowed } from "./catalog";
import { ColumnsPanel } from "./columns_panel";
import { CostPanel } from "./cost_panel";
import { CreatePanel } from "./create_panel";
import { CredentialsPanel } from "./credentials_panel";
import { DataGrid } from "./data_grid";
import { countDocument, IncompleteSearch, pageDocument, pageOf } from "./documents";
import { ExportPanel } from "./export_panel";
import { FilterPanel, filterText } from "./filter_panel";
import { PageStore } from "./page_store";
import { focusGrid } from "./panel";
import { ProblemNotice } from "./problem_notice";
import { RecordPanel } from "./record_panel";
import { SearchBar } from "./search_bar";
import { useSession } from "./session";
import { SingleRecord } from "./single_record";
import { Tools } from "./tools";
import { count, plural } from "./values";
import { columnsOf, searchOf } from "./view_state";

interface Props {
  entity: Entity;
  /** Changes when records were written. */
  written: number;
}

export const GridView = ({ entity, written }: Props): JSX.Element => {
  const session = useSession();
  const { catalog, view, run } = session;
  const search = searchOf(entity, view.search);
  const columns = columnsOf(entity, search, view);
  const [, changed] = useReducer((state: number) => state + 1, 0);
  const [restarts, restart] = useReducer((state: number) => state + 1, 0);
  const [total, setTotal] = useState("");
  const mover = useRef((_row: number): void => {});

  // The store lasts as long as the search is the same.
  const [store, missing] = useMemo((): [PageStore | null, string] => {
    if (search === undefined) return [null, ""];
    try {
      pageDocument(catalog, entity, search, view, columns, 1, null);
    } catch (problem) {
      if (problem instanceof IncompleteSearch) return [null, problem.message];
      throw problem;
    }
    const read = async (token: string | null, limit: number, signal: AbortSignal) => {
      const document = pageDocument(catalog, entity, search, view, columns, limit, token);
      const { data, problems } = await run(document, signal);
      if (problems[0] !== undefined) throw problems[0];
      return pageOf(data[search.field]);
    };
    return [new PageStore(read, () => changed(0)), ""];
  }, [catalog, entity, view.search, JSON.stringify([view.where, view.reverse, view.filters, view.any, view.history, view.partial]), columns.join(), restarts]);
  useEffect(() => () => store?.close(), [store]);
  useEffect(() => setTotal(""), [store]);
  useEffect(() => {
    if (written > 0) store?.refresh();
  }, [written]);

  const countAll = (): void => {
    if (search === undefined) return;
    run(countDocument(catalog, entity, search, view)).then(
      ({ data }) => {
        const found = (data[search.field] as { totalCount: { value: number; exact: boolean } }).totalCount;
        setTotal(`${count(found.value)}${found.exact ? "" : " or more"} in total`);
      },
      (failure: unknown) => setTotal(asProblem(failure).message),
    );
  };
  return (
    <div class="work">
      <main class="main">
        <SearchBar entity={entity} search={search} />
        <Tools entity={entity} search={search} columns={columns} />
        {view.filters.length > 0 && (
          <p class="filters-shown">
            {view.filters.map((row, at) => (
              <span key={at} class="chip">
                {filterText(row)}
              </span>
            ))}
            {view.filters.length > 1 && (view.any ? "one is enough" : "all must match")}
          </p>
        )}
        {missing !== "" && <p class="notice">{missing}</p>}
        {search === undefined && <SingleRecord key={entity.name} entity={entity} written={written} />}
        {store !== null && <StoreNotices store={store} onRestart={() => restart(0)} />}
        {store !== null && search !== undefined && <DataGrid store={store} entity={entity} search={search} columns={columns} mover={mover} />}
        {store !== null && (
          <footer class="status">
            <span>{statusOf(store)}</span>
            {total === "" ? (
              <button type="button" class="quiet" onClick={countAll}>
                Count
              </button>
            ) : (
              <span role="status">{total}</span>
            )}
            <RowInput store={store} onMove={(row) => mover.current(row)} />
            <button type="button" class="quiet" onClick={() => restart(0)}>
              Read again
            </button>
          </footer>
        )}
      </main>
      {view.panel === "record" && view.record !== null && <RecordPanel key={entity.name} entity={entity} id={view.record} />}
      {view.panel === "create" && isAllowed(entity.write) && <CreatePanel key={entity.name} entity={entity} />}
      {view.panel === "filter" && <FilterPanel key={entity.name} entity={entity} />}
      {view.panel === "columns" && <ColumnsPanel entity={entity} search={search} />}
      {view.panel === "cost" && <CostPanel />}
      {view.panel === "export" && store !== null && search !== undefined && <ExportPanel key={view.search} entity={entity} search={search} />}
      {view.panel === "credentials" && <CredentialsPanel />}
    </div>
  );
};

/** A jump to any row that was seen. */
const RowInput = ({ store, onMove }: { store: PageStore; onMove: (row: number) => void }): JSX.Element => {
  const { say } = useSession();
  const move = (text: string): void => {
    const row = Math.floor(Number(text));
    if (row >= 1 && row <= store.seen) onMove(row - 1);
    else if (text !== "") say(`Row ${text} is not read yet: there are ${count(store.seen)} so far. Scroll to read more.`);
  };
  return (
    <label>
      Go to row{" "}
      <input
        type="text"
        inputMode="numeric"
        class="row-number"
        onKeyDown={(event) => event.key === "Enter" && move(event.currentTarget.value.replace(/[ ,.]/g, ""))}
      />
    </label>
  );
};

const statusOf = (store: PageStore): string => {
  if (store.ended) return store.seen === 0 ? "No records match." : `All ${plural(store.seen, "record")} read.`;
  return `${plural(store.seen, "record")} read so far${store.isReading ? " …" : ""}`;
};

/** What happened while reading, and how to go on. */
const StoreNotices = ({ store, onRestart }: { store: PageStore; onRestart: () => void }): JSX.Element => {
  // The button that was pressed disappears with its notice.
  const resume = (): void => {
    store.resume();
    focusGrid();
  };
  const restart = (): void => {
    onRestart();
    focusGrid();
  };
  return (
  <>
    {store.problem instanceof Problem && <ProblemNotice problem={store.problem} retry={resume} restart={restart} />}
    {store.failed.length > 0 && (
      <div class="notice problem" role="alert">
        <p>
          {plural(store.failed.length, "shard")} did not answer ({store.failed.map((one) => `${one.shard}: ${one.code}`).join(", ")}). The
          records of the others are shown. The missing ones follow further down once their shards answer, so the order holds within
          each page only.
        </p>
        <div class="actions">
          <button type="button" onClick={resume}>
            Go on
          </button>
          <button type="button" onClick={restart}>
            Read all again
          </button>
        </div>
      </div>
    )}
    {store.isPaused && store.failed.length === 0 && (
      <div class="notice" role="alert">
        <p>The last pages examined many records, and few of them match. Each page costs its read budget.</p>
        <div class="actions">
          <button type="button" onClick={resume}>
            Go on
          </button>
        </div>
      </div>
    )}
    {store.changedAfter !== null && (
      <p class="notice" role="status">
        Records were changed meanwhile: those after row {count(store.changedAfter)} are read again as you scroll.
      </p>
    )}
  </>
  );
};
