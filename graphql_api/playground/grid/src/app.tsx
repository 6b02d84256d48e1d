// The page: loads the catalog, follows the address, and shows the map or the grid.

import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";

import { Api, asProblem, Problem } from "./api";
import type { Catalog } from "./catalog";
import { entityOf } from "./catalog";
import { CatalogMap } from "./catalog_map";
import { CredentialsPanel, loadCredentials } from "./credentials_panel";
import type { Document } from "./documents";
import { pageOf } from "./documents";
import { GridView } from "./grid_view";
import { ProblemNotice } from "./problem_notice";
import type { PageData, Sent, Session } from "./session";
import { SessionContext } from "./session";
import type { View } from "./view_state";
import { firstView, fromAddress, toAddress } from "./view_state";

const NO_CATALOG: Catalog = { subject: null, groups: [], pages: "both", pageSize: 100, entities: [], types: {}, explain: false, readUnitPrice: 0, readOnly: false };
const NO_VIEW: View = { page: "map", entity: "", search: "", where: {}, reverse: false, filters: [], any: false, history: "ALL", partial: false, columns: null, panel: null, record: null };

export const App = ({ page }: { page: PageData }): JSX.Element => {
  const api = useMemo(() => new Api(page.endpoint, "grid/catalog.json", loadCredentials(page.title)), [page]);
  const [catalog, setCatalog] = useState<Catalog | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [view, setView] = useState<View>(NO_VIEW);
  const [last, setLast] = useState<Sent | null>(null);
  const [said, say] = useState("");
  useEffect(() => {
    if (said === "") return;
    const timer = setTimeout(() => say(""), 15_000);
    return () => clearTimeout(timer);
  }, [said]);
  const [written, refresh] = useReducer((state: number) => state + 1, 0);
  const present = useRef(view);
  present.current = view;

  const load = useCallback(() => {
    setProblem(null);
    api.catalog().then(
      (found) => {
        setCatalog(found);
        const next = found.entities.length > 0 ? fromAddress(found, location.search) : NO_VIEW;
        // The panel may have been opened while the catalog was loading; no address contains it.
        setView(present.current.panel === "credentials" ? { ...next, panel: "credentials" } : next);
      },
      (failure: unknown) => setProblem(asProblem(failure)),
    );
  }, [api]);
  useEffect(load, [load]);
  useEffect(() => {
    const follow = (): void => {
      if (catalog !== null) setView(fromAddress(catalog, location.search));
    };
    addEventListener("popstate", follow);
    return () => removeEventListener("popstate", follow);
  }, [catalog]);

  const show: Session["show"] = useCallback((change, options) => {
    const next = { ...present.current, ...(change.page === undefined && change.search !== undefined ? { page: "grid" as const } : {}), ...change };
    present.current = next;
    setView(next);
    const address = toAddress(next);
    if (address === location.search || next.entity === "") return;
    if (options?.replace === true) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
  }, []);
  const run: Session["run"] = useCallback(
    async (document: Document, signal?: AbortSignal) => {
      try {
        const answer = await api.execute(document.query, document.variables, signal);
        const failed = Object.values(answer.data).flatMap((part) => failedShards(part));
        setLast({ document, explain: answer.explain, milliseconds: answer.milliseconds, problem: answer.problems[0] ?? null, failed });
        return answer;
      } catch (failure) {
        if (failure instanceof Problem) setLast({ document, explain: failure.explain, milliseconds: 0, problem: failure, failed: [] });
        throw failure;
      }
    },
    [api],
  );
  const session: Session = { page, api, catalog: catalog ?? NO_CATALOG, view, last, show, run, say, refresh: () => refresh(0), reload: load };
  const entity = catalog === null ? undefined : entityOf(catalog, view.entity);
  return (
    <SessionContext.Provider value={session}>
      <header class="page-header">
        <h1>{page.title}</h1>
        <nav aria-label="Pages">
          <a
            href="?page=map"
            aria-current={view.page === "map" ? "page" : undefined}
            onClick={(event) => {
              event.preventDefault();
              show({ page: "map", panel: null, record: null });
            }}
          >
            Map
          </a>
          <a
            href="?"
            aria-current={view.page === "grid" ? "page" : undefined}
            onClick={(event) => {
              event.preventDefault();
              if (catalog !== null) show(entity === undefined ? firstView(catalog) : { page: "grid", panel: null });
            }}
          >
            Records
          </a>
          {page.graphiql !== null && <a href={page.graphiql}>GraphiQL</a>}
        </nav>
        <button type="button" class="quiet" aria-expanded={view.panel === "credentials"} onClick={() => show({ panel: view.panel === "credentials" ? null : "credentials" })}>
          {catalog?.subject ?? "anonymous"}
        </button>
      </header>
      <p class="said" role="status" hidden={said === ""}>
        <span>{said}</span>
        <button type="button" class="quiet" aria-label="Dismiss" onClick={() => say("")}>
          ✕
        </button>
      </p>
      {problem !== null && <ProblemNotice problem={problem} retry={load} />}
      {catalog === null && problem === null && <p class="loading">Loading the catalog …</p>}
      {catalog !== null && view.page === "grid" && entity !== undefined ? (
        <GridView entity={entity} written={written} />
      ) : (
        <div class="work">
          {catalog !== null ? <CatalogMap /> : <main class="main" />}
          {view.panel === "credentials" && <CredentialsPanel />}
        </div>
      )}
    </SessionContext.Provider>
  );
};

const failedShards = (part: unknown): Sent["failed"] => {
  const isPage = typeof part === "object" && part !== null && "shards" in part;
  return isPage ? pageOf(part).failed : [];
};
