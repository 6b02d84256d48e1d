// Which entity is shown, in which order, and for which values.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import type { Entity, Required, Search } from "./catalog";
import { entityOf, isAllowed } from "./catalog";
import { orderText, refusal } from "./orders";
import { useSession } from "./session";
import { enumValues, editorOf } from "./values";
import { defaultSearch, searchOf, viewOf } from "./view_state";

export const SearchBar = ({ entity, search }: { entity: Entity; search: Search | undefined }): JSX.Element => {
  const { catalog, view, show } = useSession();
  const chooseEntity = (name: string): void => {
    const chosen = entityOf(catalog, name);
    if (chosen !== undefined) show(viewOf(chosen, defaultSearch(chosen)));
  };
  const chooseOrder = (text: string): void => {
    const [field = "", reverse] = text.split(" ");
    show({ search: field, reverse: reverse === "reverse" });
  };
  return (
    <div class="search-bar" role="search" aria-label="Search">
      <div class="control">
        <label for="entity">Entity</label>
        <select id="entity" value={entity.name} onChange={(event) => chooseEntity(event.currentTarget.value)}>
          {catalog.entities.map((one) => (
            <option key={one.name} value={one.name} disabled={!isAllowed(one.read)}>
              {one.name}
              {isAllowed(one.read) ? "" : " (not allowed)"}
            </option>
          ))}
        </select>
      </div>
      <div class="control" hidden={entity.searches.length === 0}>
        <label for="order">Order</label>
        <select id="order" value={`${view.search} ${view.reverse ? "reverse" : "forward"}`} onChange={(event) => chooseOrder(event.currentTarget.value)}>
          {entity.searches.flatMap((one) => [false, true].map((reverse) => orderOption(one, reverse)))}
        </select>
      </div>
      {search?.required.map((required) => (
        <ScopeInput key={`${entity.name} ${required.argument}`} required={required} entity={entity} />
      ))}
      {entity.current !== null && (
        <div class="control">
          <label for="history">History</label>
          <select id="history" value={view.history} onChange={(event) => show({ history: event.currentTarget.value })}>
            <option value="ALL">all records</option>
            <option value="CURRENT">current records</option>
            <option value="PAST">entries</option>
          </select>
        </div>
      )}
    </div>
  );
};

const orderOption = (search: Search, reverse: boolean): JSX.Element => {
  const reason = refusal(search);
  const needs = search.required.map((one) => one.argument).join(", ");
  return (
    <option key={`${search.field} ${reverse}`} value={`${search.field} ${reverse ? "reverse" : "forward"}`} disabled={reason !== ""}>
      {orderText(search, reverse)}
      {needs === "" ? "" : ` · for one ${needs}`}
      {reason === "" ? "" : ` · ${reason}`}
    </option>
  );
};

/** An argument that the search requires. */
const ScopeInput = ({ required, entity }: { required: Required; entity: Entity }): JSX.Element => {
  const { catalog, view, show } = useSession();
  const value = view.where[required.argument] ?? "";
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  const apply = (changed: string): void => {
    if (changed !== value) show({ where: { ...view.where, [required.argument]: changed } });
  };
  const key = entity.foreignKeys.find((one) => one.by.join() === required.properties.join());
  const join = entity.joins.find((one) => one.kind === "one" && one.by.join() === required.properties.join());
  const parent = entityOf(catalog, key?.parent ?? join?.target ?? "");
  const choices = enumValues(catalog, required.type);
  const id = `scope-${required.argument}`;
  const findParent = (): void => {
    if (parent !== undefined) show(viewOf(parent, defaultSearch(parent) && searchOf(parent, defaultSearch(parent)?.field ?? "")));
  };
  return (
    <div class="control scope">
      <label for={id}>{required.argument}</label>
      {choices.length > 0 ? (
        <select id={id} value={text} onChange={(event) => apply(event.currentTarget.value)}>
          <option value="">choose …</option>
          {choices.map((one) => (
            <option key={one}>{one}</option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          type="text"
          inputMode={editorOf(catalog, required.type) === "number" ? "decimal" : "text"}
          autocomplete="off"
          spellcheck={false}
          required
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
          onChange={() => apply(text)}
          onKeyDown={(event) => event.key === "Enter" && apply(text)}
        />
      )}
      {parent !== undefined && (
        <button type="button" class="quiet" onClick={findParent} title={`Find a ${parent.name}: its record links to these records.`}>
          Find …
        </button>
      )}
    </div>
  );
};
