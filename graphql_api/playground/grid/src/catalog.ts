// The description of the catalog that the server sends to the page: /grid/catalog.json.

export interface Access {
  may: "all" | "own" | "none";
  rules: string[] | null;
}

export interface Property {
  name: string;
  type: string;
  /** Selection of a nested object; empty for other types. */
  selection: string;
  description: string | null;
  roles: string[];
  read: Access;
}

export interface Unready {
  element: string;
  state: string;
  progress?: string;
  message: string;
  remedy: string;
}

export interface Required {
  argument: string;
  properties: string[];
  type: string;
}

export interface SortProperty {
  property: string;
  descending: boolean;
  /** Properties that a derived sort property is computed from; otherwise the property itself. */
  sources: string[];
}

export interface Cost {
  least: number;
  expected: number;
  most: number;
}

export interface Search {
  field: string;
  attribute: string;
  name: string;
  /** Names of the indexes of a union. */
  members: string[] | null;
  isPrimary: boolean;
  required: Required[];
  sort: SortProperty[];
  tieBreaker: string[];
  /** Properties that the index carries; null: all. Others are fetched by key. */
  carries: string[] | null;
  isSharded: boolean;
  read: Access;
  unready: Unready | null;
  cost: Cost | null;
}

export interface Join {
  name: string;
  kind: "one" | "many" | "page";
  target: string;
  description: string | null;
  by: string[];
  /** Arguments of the search of the target, in the order of `by`. */
  arguments: string[];
  search: string | null;
}

export interface Mutation {
  field: string;
  arguments: Record<string, string>;
  /** The field of the payload that holds the record. */
  payload: string;
}

export type Verb = "create" | "update" | "put" | "delete";

export interface Entity {
  name: string;
  type: string;
  description: string | null;
  read: Access;
  write: Access;
  ids: string[];
  subIds: string[];
  /** Between the parts of a composite id. */
  separator: string;
  current: string | null;
  version: string | null;
  shards: number;
  generations: number;
  record: string;
  /** Name of the input type of filters. */
  filter: string;
  properties: Property[];
  searches: Search[];
  joins: Join[];
  unique: string[][];
  foreignKeys: { parent: string; by: string[] }[];
  mutations: Partial<Record<Verb, Mutation>>;
  unready: Unready[];
}

export interface InputField {
  type: string;
  required: boolean;
  description: string | null;
}

export type TypeDescription =
  | { kind: "enum"; values: string[] }
  | { kind: "scalar"; json: "text" | "number" | "boolean" | "any"; description: string | null }
  | { kind: "input"; fields: Record<string, InputField> };

export interface Catalog {
  subject: string | null;
  groups: string[];
  pages: "both" | "relay" | "appsync";
  pageSize: number;
  entities: Entity[];
  types: Record<string, TypeDescription>;
  explain: boolean;
  readUnitPrice: number;
  readOnly: boolean;
}

export const entityOf = (catalog: Catalog, name: string): Entity | undefined =>
  catalog.entities.find((entity) => entity.name === name);

export const propertyOf = (entity: Entity, name: string): Property | undefined =>
  entity.properties.find((property) => property.name === name);

/** Properties that the caller may read, at least of some records. */
export const readable = (entity: Entity): Property[] => entity.properties.filter((one) => one.read.may !== "none");

export const isAllowed = (access: Access): boolean => access.may !== "none";

/** Why an access is limited, as a sentence; empty if it is not. */
export const accessText = (access: Access): string => {
  if (access.rules === null) return "";
  if (access.rules.length === 0) return "Allowed for no caller.";
  const who = access.rules.join(" or ");
  const you = { all: "You are allowed.", own: "You are allowed for your own records.", none: "You are not allowed." };
  return `Allowed for ${who}. ${you[access.may]}`;
};
