// The map of the catalog: entities, indexes, shards, joins and rules, with what each search costs.

import type { JSX } from "preact";

import type { Catalog, Entity, Search } from "./catalog";
import { accessText, entityOf, isAllowed } from "./catalog";
import { orderText, refusal } from "./orders";
import { useSession } from "./session";
import { plural, units } from "./values";
import { viewOf } from "./view_state";

export const CatalogMap = (): JSX.Element => {
  const { catalog, show } = useSession();
  return (
    <main class="map" aria-label="Map of the catalog">
      <p class="hint">
        A search reads the shards of its index at once. The cost is the expected charge of a page of {catalog.pageSize} records by
        DynamoDB's rules, if every shard has more; the price is that of a million such pages.
      </p>
      {catalog.entities.map((entity) => (
        <section key={entity.name} class="entity" id={`entity-${entity.name}`} aria-labelledby={`title-${entity.name}`}>
          <h2 id={`title-${entity.name}`}>{entity.name}</h2>
          <p>{entity.description}</p>
          <p class="hint">{factsOf(entity)}</p>
          <Rules entity={entity} />
          {entity.unready.map((one) => (
            <p key={one.element} class="notice">
              {one.message} {one.remedy}
            </p>
          ))}
          <Searches entity={entity} />
          <Joins entity={entity} catalog={catalog} onOpen={(target) => document.getElementById(`title-${target}`)?.scrollIntoView({ block: "start" })} />
          <div class="actions">
            {isAllowed(entity.read) && (
              <button type="button" onClick={() => show(viewOf(entity, entity.searches.find((one) => refusal(one) === "" && one.required.length === 0) ?? entity.searches[0]))}>
                Show {entity.name} records
              </button>
            )}
          </div>
        </section>
      ))}
    </main>
  );
};

const factsOf = (entity: Entity): string => {
  const key = [...entity.ids, ...entity.subIds].join(" + ");
  const parts = [
    key === "" ? "a single record" : `key ${key}`,
    plural(entity.shards, "shard"),
    ...(entity.generations > 1 ? [plural(entity.generations, "shard generation")] : []),
    ...(entity.current === null ? [] : [`current record ${entity.current}`]),
    ...(entity.version === null ? [] : ["with versions"]),
    ...entity.unique.map((names) => `unique ${names.join(" + ")}`),
    ...entity.foreignKeys.map((one) => `${one.by.join(" + ")} references ${one.parent}`),
  ];
  return parts.join(" · ");
};

const Rules = ({ entity }: { entity: Entity }): JSX.Element | null => {
  const lines = [
    ["Reads", accessText(entity.read)],
    ["Writes", entity.write.rules?.join() === entity.read.rules?.join() ? "" : accessText(entity.write)],
    ...entity.properties.map((property) => [property.name, accessText(property.read)]),
  ].filter(([, text]) => text !== "");
  if (lines.length === 0) return null;
  return (
    <dl class="facts">
      {lines.map(([name, text]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{text}</dd>
        </div>
      ))}
    </dl>
  );
};

const Searches = ({ entity }: { entity: Entity }): JSX.Element | null => {
  const { catalog, show } = useSession();
  if (entity.searches.length === 0) return null;
  return (
    <div class="table" role="region" aria-label={`Searches of ${entity.name}`} tabIndex={0}>
      <table>
        <thead>
          <tr>
            <th scope="col">Search</th>
            <th scope="col">For one</th>
            <th scope="col">Order</th>
            <th scope="col">Shards</th>
            <th scope="col">Carries</th>
            <th scope="col">Cost of a page</th>
            <th scope="col">Price</th>
            <th scope="col">Rules, state</th>
          </tr>
        </thead>
        <tbody>
          {entity.searches.map((search) => (
            <tr key={search.field}>
              <th scope="row">
                <button type="button" class="link" disabled={refusal(search) !== ""} onClick={() => show(viewOf(entity, search))}>
                  {search.field}
                </button>
              </th>
              <td>{search.required.map((one) => one.argument).join(", ") || "–"}</td>
              <td>{orderText(search, false)}</td>
              <td>{search.isSharded ? entity.shards : 1}</td>
              <td>{search.carries === null ? "all" : search.carries.join(", ")}</td>
              <td>{search.cost === null ? "–" : units(search.cost.expected)}</td>
              <td>{search.cost === null ? "–" : (search.cost.expected * catalog.readUnitPrice).toFixed(2)}</td>
              <td>{stateOf(search)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
};

const stateOf = (search: Search): string =>
  [accessText(search.read), search.unready === null ? "" : `${search.unready.message} ${search.unready.remedy}`].filter((text) => text !== "").join(" ") || "open, ready";

const COUNTS = { one: "one", many: "several", page: "pages of" };

const Joins = ({ entity, catalog, onOpen }: { entity: Entity; catalog: Catalog; onOpen: (target: string) => void }): JSX.Element | null => {
  if (entity.joins.length === 0) return null;
  return (
    <>
      <h3>Joins</h3>
      <ul class="joins">
        {entity.joins.map((join) => (
          <li key={join.name}>
            <code>{join.name}</code> → {COUNTS[join.kind]}{" "}
            <button type="button" class="link" onClick={() => onOpen(join.target)} disabled={entityOf(catalog, join.target) === undefined}>
              {join.target}
            </button>{" "}
            by {join.by.join(", ") || "key"}
            {join.search !== null && `, through ${join.search}`}
          </li>
        ))}
      </ul>
    </>
  );
};
