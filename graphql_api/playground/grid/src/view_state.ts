// What the page shows, and its form in the address: a link opens the same view.

import type { Catalog, Entity, Search } from "./catalog";
import { entityOf, isAllowed, readable } from "./catalog";

export interface FilterRow {
  property: string;
  operator: string;
  text: string;
}

export type PanelName = "record" | "create" | "filter" | "columns" | "cost" | "export" | "credentials";

export interface View {
  page: "map" | "grid";
  entity: string;
  search: string;
  /** Values of the arguments that the search requires, as texts. */
  where: Record<string, string>;
  reverse: boolean;
  filters: FilterRow[];
  /** Whether one matching filter is enough. */
  any: boolean;
  /** ALL, PAST or CURRENT. */
  history: string;
  partial: boolean;
  columns: string[] | null;
  panel: PanelName | null;
  /** Id of the record that the panel shows. */
  record: string | null;
}

const WHERE = "where.";
const MAX_COLUMNS = 8;

export const searchOf = (entity: Entity, field: string): Search | undefined =>
  entity.searches.find((search) => search.field === field);

/** The search that shows an entity best without any value: an index that needs none, else the first one. */
export const defaultSearch = (entity: Entity): Search | undefined => {
  const usable = entity.searches.filter((search) => isAllowed(search.read) && search.unready === null);
  const open = usable.filter((search) => search.required.length === 0);
  return open.find((search) => !search.isPrimary) ?? open[0] ?? usable[0] ?? entity.searches[0];
};

export const viewOf = (entity: Entity, search: Search | undefined, where: Record<string, string> = {}): View => ({
  page: "grid",
  entity: entity.name,
  search: search?.field ?? "",
  where,
  reverse: false,
  filters: [],
  any: false,
  history: "ALL",
  partial: false,
  columns: null,
  panel: null,
  record: null,
});

export const firstView = (catalog: Catalog): View => {
  const entity = catalog.entities.find((one) => isAllowed(one.read)) ?? (catalog.entities[0] as Entity);
  return viewOf(entity, defaultSearch(entity));
};

/** The properties to show unless the reader has chosen: those of the order first, then the others as declared. */
export const defaultColumns = (entity: Entity, search: Search | undefined): string[] => {
  const names = readable(entity).filter((property) => property.selection === "").map((property) => property.name);
  const ordered = search?.sort.flatMap((part) => part.sources) ?? [];
  const fixed = new Set(search?.required.flatMap((one) => one.properties));
  const first = ordered.filter((name) => names.includes(name));
  const others = names.filter((name) => !first.includes(name) && !fixed.has(name));
  const isKey = (name: string): boolean => entity.ids.includes(name) && !first.includes(name);
  return [...first, ...others.filter((name) => !isKey(name)), ...others.filter(isKey)].slice(0, MAX_COLUMNS);
};

export const columnsOf = (entity: Entity, search: Search | undefined, view: View): string[] => {
  const known = new Set(readable(entity).map((property) => property.name));
  const chosen = view.columns?.filter((name) => known.has(name)) ?? [];
  return chosen.length > 0 ? chosen : defaultColumns(entity, search);
};

// --- the address -------------------------------------------------------------------------------------------------

export const toAddress = (view: View): string => {
  if (view.page === "map") return "?page=map";
  const parameters = new URLSearchParams({ entity: view.entity, search: view.search });
  for (const [name, text] of Object.entries(view.where)) if (text !== "") parameters.set(WHERE + name, text);
  if (view.reverse) parameters.set("reverse", "1");
  for (const { property, operator, text } of view.filters) parameters.append("filter", `${property}.${operator}.${text}`);
  if (view.any) parameters.set("match", "any");
  if (view.history !== "ALL") parameters.set("history", view.history);
  if (view.partial) parameters.set("shards", "partial");
  if (view.columns !== null) parameters.set("columns", view.columns.join(","));
  if (view.panel !== null && view.panel !== "credentials") parameters.set("panel", view.panel);
  if (view.panel === "record" && view.record !== null) parameters.set("record", view.record);
  return `?${parameters.toString()}`;
};

const PANELS: readonly string[] = ["record", "create", "filter", "columns", "cost", "export"];

/** The view of an address. What the catalog does not have is replaced by a default. */
export const fromAddress = (catalog: Catalog, address: string): View => {
  const parameters = new URLSearchParams(address);
  if (parameters.get("page") === "map") return { ...firstView(catalog), page: "map" };
  const entity = entityOf(catalog, parameters.get("entity") ?? "");
  if (entity === undefined) return firstView(catalog);
  const search = searchOf(entity, parameters.get("search") ?? "") ?? defaultSearch(entity);
  const where = [...parameters].filter(([name]) => name.startsWith(WHERE));
  const panel = parameters.get("panel");
  return {
    ...viewOf(entity, search, Object.fromEntries(where.map(([name, text]) => [name.slice(WHERE.length), text]))),
    reverse: parameters.get("reverse") === "1",
    filters: parameters.getAll("filter").map(parseFilter).filter((row) => row !== null),
    any: parameters.get("match") === "any",
    history: parameters.get("history") ?? "ALL",
    partial: parameters.get("shards") === "partial",
    columns: parameters.get("columns")?.split(",") ?? null,
    panel: panel !== null && PANELS.includes(panel) ? (panel as PanelName) : null,
    record: parameters.get("record"),
  };
};

const parseFilter = (text: string): FilterRow | null => {
  const parts = /^(\w+)\.(\w+)\.(.*)$/s.exec(text);
  return parts === null ? null : { property: parts[1] as string, operator: parts[2] as string, text: parts[3] as string };
};
