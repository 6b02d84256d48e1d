// The columns of the grid: which, and in which order.

import type { JSX } from "preact";

import type { Entity, Search } from "./catalog";
import { accessText, readable } from "./catalog";
import { Panel } from "./panel";
import { useSession } from "./session";
import { columnsOf } from "./view_state";

export const ColumnsPanel = ({ entity, search }: { entity: Entity; search: Search | undefined }): JSX.Element => {
  const { view, show, say } = useSession();
  const shown = columnsOf(entity, search, view);
  const hidden = readable(entity).map((one) => one.name).filter((name) => !shown.includes(name));
  const toggle = (name: string): void => {
    const columns = shown.includes(name) ? shown.filter((one) => one !== name) : [...shown, name];
    if (columns.length > 0) show({ columns }, { replace: true });
  };
  const move = (name: string, step: number): void => {
    const columns = [...shown];
    const at = columns.indexOf(name);
    columns.splice(at, 1);
    columns.splice(at + step, 0, name);
    say(`${name} is column ${at + step + 1}.`);
    show({ columns }, { replace: true });
  };
  const line = (name: string): JSX.Element => {
    const property = entity.properties.find((one) => one.name === name);
    const at = shown.indexOf(name);
    const isFetched = search?.carries !== null && search?.carries.includes(name) === false;
    return (
      <li key={name}>
        <label class="check">
          <input type="checkbox" checked={at >= 0} disabled={at >= 0 && shown.length === 1} onChange={() => toggle(name)} />
          <span>
            {name} <small>{property?.type}</small>
          </span>
        </label>
        {at >= 0 && (
          <span class="moves">
            <button type="button" class="quiet" disabled={at === 0} aria-label={`Move ${name} to the left`} onClick={() => move(name, -1)}>
              ↑
            </button>
            <button type="button" class="quiet" disabled={at === shown.length - 1} aria-label={`Move ${name} to the right`} onClick={() => move(name, 1)}>
              ↓
            </button>
          </span>
        )}
        <p class="hint">
          {property?.description} {property !== undefined && accessText(property.read)}
          {isFetched && " The index does not carry it: each record is fetched by key."}
        </p>
      </li>
    );
  };
  return (
    <Panel title="Columns">
      <ul class="columns">{[...shown, ...hidden].map(line)}</ul>
      <button type="button" onClick={() => show({ columns: null }, { replace: true })}>
        Show the usual columns
      </button>
    </Panel>
  );
};
