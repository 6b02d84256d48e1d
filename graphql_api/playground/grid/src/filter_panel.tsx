// Filters, built from the filter types of the schema.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Catalog, Entity } from "./catalog";
import { readable } from "./catalog";
import { filterOf, IncompleteSearch, operatorsOf } from "./documents";
import { Panel } from "./panel";
import { useSession } from "./session";
import { parseType } from "./type_names";
import { editorOf, enumValues } from "./values";
import type { FilterRow } from "./view_state";

const WORDS: Record<string, string> = {
  eq: "is",
  ne: "is not",
  in: "is one of",
  lt: "is less than",
  le: "is at most",
  gt: "is more than",
  ge: "is at least",
  between: "is between",
  prefix: "starts with",
  contains: "contains",
  exists: "has a value",
};

export const filterText = ({ property, operator, text }: FilterRow): string =>
  `${property} ${WORDS[operator] ?? operator} ${text}`;

export const FilterPanel = ({ entity }: { entity: Entity }): JSX.Element => {
  const { catalog, view, show } = useSession();
  const properties = readable(entity).filter((one) => Object.keys(operatorsOf(catalog, entity, one.name)).length > 0);
  const blank = (): FilterRow => {
    const property = properties[0]?.name ?? "";
    return { property, operator: Object.keys(operatorsOf(catalog, entity, property))[0] ?? "eq", text: "" };
  };
  const [rows, setRows] = useState<FilterRow[]>(view.filters.length > 0 ? view.filters : [blank()]);
  const [any, setAny] = useState(view.any);
  const [problem, setProblem] = useState("");
  const change = (at: number, part: Partial<FilterRow>): void =>
    setRows(rows.map((row, number) => (number === at ? { ...row, ...part } : row)));
  const apply = (filters: FilterRow[]): void => {
    try {
      filterOf(catalog, entity, filters, any);
    } catch (failure) {
      if (!(failure instanceof IncompleteSearch)) throw failure;
      setProblem(failure.message);
      return;
    }
    setProblem("");
    show({ filters, any });
  };
  return (
    <Panel title="Filter">
      <form
        class="filters"
        onSubmit={(event) => {
          event.preventDefault();
          apply(rows);
        }}
      >
        {rows.map((row, at) => (
          <FilterInput
            key={at}
            row={row}
            at={at}
            entity={entity}
            properties={properties.map((one) => one.name)}
            onChange={(part) => change(at, part)}
            onRemove={() => setRows(rows.filter((_, number) => number !== at))}
          />
        ))}
        <button type="button" onClick={() => setRows([...rows, blank()])}>
          Add a filter
        </button>
        {rows.length > 1 && (
          <label class="check">
            <input type="checkbox" checked={any} onChange={(event) => setAny(event.currentTarget.checked)} />
            One matching filter is enough
          </label>
        )}
        {problem !== "" && (
          <p class="notice problem" role="alert">
            {problem}
          </p>
        )}
        <div class="actions">
          <button type="submit" class="primary">
            Apply
          </button>
          <button
            type="button"
            onClick={() => {
              setRows([]);
              setProblem("");
              show({ filters: [], any: false });
            }}
          >
            Remove all
          </button>
        </div>
        <p class="hint">
          A filter on the first property of the order reads only the matching range. Other filters test every record that
          is read, so a rare match costs many reads. See Cost.
        </p>
      </form>
    </Panel>
  );
};

interface InputProps {
  row: FilterRow;
  at: number;
  entity: Entity;
  properties: string[];
  onChange: (part: Partial<FilterRow>) => void;
  onRemove: () => void;
}

const FilterInput = ({ row, at, entity, properties, onChange, onRemove }: InputProps): JSX.Element => {
  const { catalog } = useSession();
  const operators = operatorsOf(catalog, entity, row.property);
  const chooseProperty = (property: string): void => {
    const known = operatorsOf(catalog, entity, property);
    const operator = row.operator in known ? row.operator : (Object.keys(known)[0] ?? "eq");
    onChange({ property, operator, text: known[operator] === operators[row.operator] ? row.text : "" });
  };
  return (
    <fieldset>
      <legend>Filter {at + 1}</legend>
      <select aria-label={`Property of filter ${at + 1}`} value={row.property} onChange={(event) => chooseProperty(event.currentTarget.value)}>
        {properties.map((name) => (
          <option key={name}>{name}</option>
        ))}
      </select>
      <select aria-label={`Operator of filter ${at + 1}`} value={row.operator} onChange={(event) => onChange({ operator: event.currentTarget.value })}>
        {Object.keys(operators).map((name) => (
          <option key={name} value={name}>
            {WORDS[name] ?? name}
          </option>
        ))}
      </select>
      <FilterValue catalog={catalog} type={operators[row.operator] ?? "String"} row={row} at={at} onChange={onChange} />
      <button type="button" class="quiet" aria-label={`Remove filter ${at + 1}`} onClick={onRemove}>
        ✕
      </button>
    </fieldset>
  );
};

interface ValueProps {
  catalog: Catalog;
  type: string;
  row: FilterRow;
  at: number;
  onChange: (part: Partial<FilterRow>) => void;
}

const FilterValue = ({ catalog, type, row, at, onChange }: ValueProps): JSX.Element => {
  const { name, isList } = parseType(type);
  const choices = isList ? [] : enumValues(catalog, type);
  const options = editorOf(catalog, type) === "boolean" ? ["true", "false"] : choices;
  const label = `Value of filter ${at + 1}`;
  if (options.length > 0) {
    return (
      <select aria-label={label} value={row.text} onChange={(event) => onChange({ text: event.currentTarget.value })}>
        <option value="">choose …</option>
        {options.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    );
  }
  const isRange = catalog.types[name]?.kind === "input";
  const input = (text: string, part: string, apply: (changed: string) => void): JSX.Element => (
    <input
      type="text"
      autocomplete="off"
      aria-label={`${label}${part}`}
      placeholder={isList ? "a, b, c" : ""}
      value={text}
      onInput={(event) => apply(event.currentTarget.value)}
    />
  );
  if (!isRange) return input(row.text, "", (text) => onChange({ text }));
  const [from = "", to = ""] = row.text.split("…");
  return (
    <>
      {input(from, ", from", (text) => onChange({ text: `${text}…${to}` }))}
      {input(to, ", to", (text) => onChange({ text: `${from}…${text}` }))}
    </>
  );
};
