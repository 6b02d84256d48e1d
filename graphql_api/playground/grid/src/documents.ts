// GraphQL documents for the views of the page, and their variables.

import type { Catalog, Entity, Join, Search } from "./catalog";
import { entityOf, propertyOf, readable } from "./catalog";
import type { ReadPage, Row } from "./page_store";
import { parseType } from "./type_names";
import { InvalidText, parseText } from "./values";
import type { FilterRow, View } from "./view_state";

export interface Document {
  query: string;
  variables: Record<string, unknown>;
}

/** Values of a search that lacks some, or whose texts are no values. */
export class IncompleteSearch extends Error {}

const fieldText = (entity: Entity, name: string): string => {
  const selection = propertyOf(entity, name)?.selection ?? "";
  return selection === "" ? name : `${name} ${selection}`;
};

// --- filters -------------------------------------------------------------------------------------------------------

/** The operators of a property with the types of their values, as the schema declares them. */
export const operatorsOf = (catalog: Catalog, entity: Entity, property: string): Record<string, string> => {
  const filter = catalog.types[entity.filter];
  const comparison = filter?.kind === "input" ? filter.fields[property]?.type : undefined;
  const described = comparison === undefined ? undefined : catalog.types[parseType(comparison).name];
  if (described?.kind !== "input") return {};
  return Object.fromEntries(Object.entries(described.fields).map(([name, field]) => [name, field.type]));
};

const filterValue = (catalog: Catalog, type: string, text: string): unknown => {
  const range = catalog.types[parseType(type).name];
  if (range?.kind !== "input") return parseText(catalog, type, text);
  const [from, to, ...more] = text.split("…");
  if (from === undefined || to === undefined || more.length > 0) throw new InvalidText("Enter both bounds.");
  const bound = (name: string, part: string): unknown => parseText(catalog, range.fields[name]?.type ?? "String", part.trim());
  return { from: bound("from", from), to: bound("to", to) };
};

export const filterOf = (catalog: Catalog, entity: Entity, rows: FilterRow[], any: boolean): unknown => {
  const parts = rows.map((row) => {
    const type = operatorsOf(catalog, entity, row.property)[row.operator];
    if (type === undefined) throw new IncompleteSearch(`${entity.name} has no filter ${row.property} ${row.operator}.`);
    try {
      return { [row.property]: { [row.operator]: filterValue(catalog, type, row.text) } };
    } catch (problem) {
      if (problem instanceof InvalidText) throw new IncompleteSearch(`Filter ${row.property}: ${problem.message}`);
      throw problem;
    }
  });
  if (parts.length === 0) return undefined;
  return parts.length === 1 ? parts[0] : { [any ? "or" : "and"]: parts };
};

// --- searches ------------------------------------------------------------------------------------------------------

interface Argument {
  name: string;
  type: string;
  value: unknown;
}

const requiredArguments = (catalog: Catalog, search: Search, where: Record<string, string>): Argument[] =>
  search.required.map(({ argument, type }) => {
    const text = where[argument] ?? "";
    if (text === "") throw new IncompleteSearch(`This order needs a value of ${argument}: enter it above, or choose another order.`);
    try {
      return { name: argument, type, value: parseText(catalog, type, text) };
    } catch (problem) {
      if (problem instanceof InvalidText) throw new IncompleteSearch(`${argument}: ${problem.message}`);
      throw problem;
    }
  });

const viewArguments = (catalog: Catalog, entity: Entity, search: Search, view: View): Argument[] => {
  const filter = filterOf(catalog, entity, view.filters, view.any);
  return [
    ...requiredArguments(catalog, search, view.where),
    ...(filter === undefined ? [] : [{ name: "filter", type: entity.filter, value: filter }]),
    ...(view.reverse ? [{ name: "reverse", type: "Boolean", value: true }] : []),
    ...(entity.current !== null && view.history !== "ALL" ? [{ name: "history", type: "History", value: view.history }] : []),
    ...(view.partial ? [{ name: "onShardFailure", type: "OnShardFailure", value: "PARTIAL" }] : []),
  ];
};

const PAGE_STATE = "complete stoppedBy shards { expected answered failed { shard code retryable } }";

const pageSelection = (catalog: Catalog, record: string): string =>
  catalog.pages === "relay"
    ? `edges { node { ${record} } } pageInfo { hasNextPage endCursor } ${PAGE_STATE}`
    : `items { ${record} } nextToken ${PAGE_STATE}`;

const pagingNames = (catalog: Catalog): [string, string] =>
  catalog.pages === "relay" ? ["first", "after"] : ["limit", "nextToken"];

const operation = (kind: string, name: string, field: string, given: Argument[], selection: string): Document => {
  const declared = given.map((one) => `$${one.name}: ${one.type}`).join(", ");
  const passed = given.map((one) => `${one.name}: $${one.name}`).join(", ");
  const head = `${kind} ${name}${declared === "" ? "" : `(${declared})`}`;
  const query = `${head} {\n  ${field}${passed === "" ? "" : `(${passed})`} {\n    ${selection}\n  }\n}`;
  return { query, variables: Object.fromEntries(given.map((one) => [one.name, one.value])) };
};

/** The document of a page of a view. */
export const pageDocument = (
  catalog: Catalog,
  entity: Entity,
  search: Search,
  view: View,
  columns: string[],
  limit: number,
  token: string | null,
): Document => {
  const [size, start] = pagingNames(catalog);
  const given = [
    ...viewArguments(catalog, entity, search, view),
    { name: size, type: "Int", value: limit },
    { name: start, type: "String", value: token },
  ];
  const record = ["id", ...columns.map((name) => fieldText(entity, name))].join(" ");
  return operation("query", "Grid", search.field, given, pageSelection(catalog, record));
};

export const countDocument = (catalog: Catalog, entity: Entity, search: Search, view: View): Document => {
  const given = viewArguments(catalog, entity, search, view).filter((one) => one.name !== "onShardFailure");
  return operation("query", "Count", search.field, given, "totalCount { value exact }");
};

/** A value as a literal of a document. */
const literal = (catalog: Catalog, type: string, value: unknown): string => {
  const { name } = parseType(type);
  const described = catalog.types[name];
  if (Array.isArray(value)) return `[${value.map((one) => literal(catalog, name, one)).join(", ")}]`;
  if (described?.kind === "enum" || name === "History") return String(value);
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const fields = described?.kind === "input" ? described.fields : {};
  const parts = Object.entries(value).map(([key, one]) => `${key}: ${literal(catalog, fields[key]?.type ?? "String", one)}`);
  return `{${parts.join(", ")}}`;
};

/** The field of a view with its arguments, as `shardql export` takes it. */
export const searchText = (catalog: Catalog, entity: Entity, search: Search, view: View): string => {
  const given = viewArguments(catalog, entity, search, { ...view, partial: false });
  const passed = given.map((one) => `${one.name}: ${literal(catalog, one.type, one.value)}`).join(", ");
  return passed === "" ? search.field : `${search.field}(${passed})`;
};

interface ConnectionData {
  items?: Row[];
  nextToken?: string | null;
  edges?: { node: Row }[];
  pageInfo?: { hasNextPage: boolean; endCursor: string | null };
  stoppedBy: string | null;
  shards: { failed: ReadPage["failed"] };
}

/** The page in the data of a connection field. */
export const pageOf = (data: unknown): ReadPage => {
  const found = data as ConnectionData;
  const rows = found.items ?? found.edges?.map((edge) => edge.node) ?? [];
  const relayToken = found.pageInfo?.hasNextPage === true ? found.pageInfo.endCursor : null;
  return { rows, nextToken: found.nextToken ?? relayToken, stoppedBy: found.stoppedBy, failed: found.shards.failed };
};

// --- one record ----------------------------------------------------------------------------------------------------

/** A property that names a record for people. */
export const labelOf = (entity: Entity): string => {
  const texts = readable(entity).filter((one) => one.type.startsWith("String") && !entity.ids.includes(one.name));
  const known = texts.find((one) => /^(name|title|label|subject|email)$/i.test(one.name)) ?? texts.find((one) => /name|title/i.test(one.name));
  return (known ?? texts[0])?.name ?? entity.ids[0] ?? "id";
};

const joinSelection = (catalog: Catalog, join: Join): string => {
  const target = entityOf(catalog, join.target);
  const label = target === undefined ? "id" : labelOf(target);
  return `${join.name} { id${label === "id" ? "" : ` ${label}`} }`;
};

/** The document of a record with all its properties, and the records that it references. */
export const recordDocument = (catalog: Catalog, entity: Entity, id: string): Document => {
  const own = readable(entity).map((property) => fieldText(entity, property.name));
  const joins = entity.joins.filter((join) => join.kind !== "page").map((join) => joinSelection(catalog, join));
  const query = `query Record($id: ID!) {\n  node(id: $id) {\n    id\n    ... on ${entity.type} { ${[...own, ...joins].join(" ")} }\n  }\n}`;
  return { query, variables: { id } };
};

/** The document of a page of a has-many join. */
export const joinDocument = (catalog: Catalog, entity: Entity, join: Join, id: string, limit: number, token: string | null): Document => {
  const target = entityOf(catalog, join.target) as Entity;
  const [size, start] = pagingNames(catalog);
  const names = defaultNames(target).map((name) => fieldText(target, name));
  const page = pageSelection(catalog, ["id", ...names].join(" "));
  const query =
    `query Join($id: ID!, $size: Int, $start: String) {\n  node(id: $id) {\n    id\n    ... on ${entity.type} ` +
    `{ ${join.name}(${size}: $size, ${start}: $start) { ${page} } }\n  }\n}`;
  return { query, variables: { id, size: limit, start: token } };
};

/** Some properties that describe a record in a short list. */
export const defaultNames = (entity: Entity): string[] => {
  const label = labelOf(entity);
  const scalars = readable(entity).filter((one) => one.selection === "" && one.name !== label).map((one) => one.name);
  const others = scalars.filter((name) => !entity.ids.includes(name));
  return [...(label === "id" ? [] : [label]), ...entity.subIds.filter((name) => name !== label), ...others].filter((name, at, all) => all.indexOf(name) === at).slice(0, 4);
};

// --- writes --------------------------------------------------------------------------------------------------------

export const writeDocument = (entity: Entity, verb: "create" | "update", input: Record<string, unknown>, key: string): Document => {
  const mutation = entity.mutations[verb];
  if (mutation === undefined) throw new IncompleteSearch(`${entity.name} has no mutation ${verb}.`);
  const given = [
    { name: "input", type: mutation.arguments["input"] ?? "", value: input },
    { name: "idempotencyKey", type: "String", value: key },
  ];
  return operation("mutation", verb === "create" ? "Create" : "Update", mutation.field, given, `${mutation.payload} { id }`);
};

export const deleteDocument = (catalog: Catalog, entity: Entity, id: string, version: unknown, key: string): Document => {
  const mutation = entity.mutations.delete;
  if (mutation === undefined) throw new IncompleteSearch(`${entity.name} has no mutation delete.`);
  const versionType = mutation.arguments["expectedVersion"];
  const given = [
    ...("id" in mutation.arguments ? [{ name: "id", type: "ID!", value: id }] : []),
    ...(versionType === undefined || version === undefined || version === null
      ? []
      : [{ name: "expectedVersion", type: versionType, value: parseText(catalog, versionType, String(version)) }]),
    { name: "idempotencyKey", type: "String", value: key },
  ];
  return operation("mutation", "Delete", mutation.field, given, "deletedId");
};
