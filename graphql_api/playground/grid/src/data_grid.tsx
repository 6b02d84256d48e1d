// The grid: a window of rows over a result of any length, moved by wheel, touch, scroll bar and keyboard.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useReducer, useRef } from "preact/hooks";

import type { Catalog, Entity, Property, Search } from "./catalog";
import { propertyOf } from "./catalog";
import type { OrderOffer } from "./orders";
import { orderOfColumn } from "./orders";
import { LIMITS, type PageStore, type Row } from "./page_store";
import { ScrollScale } from "./scroll_scale";
import { useSession } from "./session";
import { parseType } from "./type_names";
import { count, formatCell, isNumeric } from "./values";

const OVERSCAN = 4;

interface Props {
  store: PageStore;
  entity: Entity;
  search: Search;
  columns: string[];
  /** Is set to a function that moves to a row. */
  mover: { current: (row: number) => void };
}

/** The least width of a column in rem, and the greatest as CSS. Long texts take most of what is left. */
const columnWidth = (catalog: Catalog, property: Property | undefined): [number, string] => {
  if (property === undefined || property.selection !== "") return [12, "2fr"];
  const name = parseType(property.type).name;
  if (isNumeric(catalog, property)) return [6, "8rem"];
  if (catalog.types[name]?.kind === "enum" || name === "Boolean") return [7, "9rem"];
  return name === "String" ? [12, "2fr"] : [10, "1fr"];
};

/** A length in pixels that the style sheet declares. */
const length = (element: Element, name: string): number =>
  Number.parseFloat(getComputedStyle(element).getPropertyValue(name));

export const DataGrid = ({ store, entity, search, columns, mover }: Props): JSX.Element => {
  const { catalog, view, show, say } = useSession();
  const [, redraw] = useReducer((state: number) => state + 1, 0);
  const grid = useRef<HTMLDivElement>(null);
  const state = useRef({ active: 0, column: 0, rowHeight: 32, view: 600, lastStore: store });
  const scale = useMemo(
    () => new ScrollScale(0, 0, length(document.documentElement, "--max-scroll-height") || 8_000_000),
    [store],
  );
  const current = state.current;
  if (current.lastStore !== store) Object.assign(current, { lastStore: store, active: 0 });
  const rows = store.seen + (store.ended ? 0 : LIMITS.page);
  scale.resize(rows * current.rowHeight, current.view);

  const measure = (): void => {
    const element = grid.current;
    if (element === null) return;
    current.rowHeight = length(element, "--row-height") || 32;
    current.view = Math.max(current.rowHeight, element.clientHeight - length(element, "--head-height"));
    redraw(0);
  };
  useLayoutEffect(() => {
    const element = grid.current;
    if (element === null) return;
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    measure();
    return () => observer.disconnect();
  }, []);
  useLayoutEffect(() => {
    if (grid.current !== null) grid.current.scrollTop = scale.settle();
  }, [store]);

  useLayoutEffect(() => {
    if (grid.current !== null && scale.isStuck) grid.current.scrollTop = scale.settle();
  });

  const first = Math.max(0, Math.floor(scale.top / current.rowHeight) - OVERSCAN);
  const last = Math.min(rows - 1, Math.ceil((scale.top + current.view) / current.rowHeight) + OVERSCAN);
  useEffect(() => store.show(first, Math.max(first, last)), [store, first, last]);

  const idle = useRef(0);
  const onScroll = (): void => {
    const element = grid.current;
    if (element === null) return;
    scale.follow(element.scrollTop);
    clearTimeout(idle.current);
    if (scale.isScaled) idle.current = window.setTimeout(() => (element.scrollTop = scale.settle()), 200);
    redraw(0);
  };

  // --- keyboard ----------------------------------------------------------------------------------------------------

  const goTo = (row: number): void => {
    current.active = Math.max(0, Math.min(row, Math.max(0, (store.ended ? store.seen : rows) - 1)));
    const top = current.active * current.rowHeight;
    const bottom = top + current.rowHeight - current.view;
    if (grid.current !== null && (top < scale.top || bottom > scale.top)) {
      grid.current.scrollTop = scale.moveTo(top < scale.top ? top : bottom);
    }
    redraw(0);
  };
  mover.current = (row) => {
    goTo(row);
    grid.current?.focus();
  };
  const open = (row: Row | undefined): void => {
    if (row !== undefined) show({ panel: "record", record: row.id });
  };
  const visible = Math.max(1, Math.floor(current.view / current.rowHeight) - 1);
  const onKeyDown = (event: KeyboardEvent): void => {
    if (event.target !== grid.current || event.altKey) return;
    const isEnd = event.ctrlKey || event.metaKey;
    const moves: Record<string, () => void> = {
      ArrowDown: () => goTo(current.active + 1),
      ArrowUp: () => goTo(current.active - 1),
      PageDown: () => goTo(current.active + visible),
      PageUp: () => goTo(current.active - visible),
      Home: () => goTo(isEnd ? 0 : Math.ceil(scale.top / current.rowHeight)),
      End: () => goTo(isEnd ? store.seen - 1 : Math.floor((scale.top + current.view) / current.rowHeight) - 1),
      ArrowRight: () => moveColumn(1),
      ArrowLeft: () => moveColumn(-1),
      Enter: () => open(store.row(current.active)),
    };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    move();
  };
  const moveColumn = (step: number): void => {
    current.column = Math.max(0, Math.min(columns.length - 1, current.column + step));
    const cell = grid.current?.querySelectorAll("[role=columnheader]")[current.column];
    cell?.scrollIntoView({ block: "nearest", inline: "nearest" });
    redraw(0);
  };

  // --- drawing -----------------------------------------------------------------------------------------------------

  const isNumber = Object.fromEntries(entity.properties.map((one) => [one.name, isNumeric(catalog, one)]));
  const widths = columns.map((name) => columnWidth(catalog, propertyOf(entity, name)));
  const template = {
    "--grid-columns": widths.map(([least, most]) => `minmax(${least}rem, ${most})`).join(" "),
    "--grid-width": `${widths.reduce((sum, [least]) => sum + least, 0)}rem`,
  };
  const sortBy = (offer: OrderOffer): void => {
    if (offer.search === null) say(offer.why);
    else show({ search: offer.search.field, reverse: offer.reverse });
  };
  const header = (name: string, at: number): JSX.Element => {
    const offer = orderOfColumn(entity, search, view, name);
    const property = propertyOf(entity, name);
    const help = `${property?.description ?? name} ${offer.why}`;
    return (
      <div role="columnheader" aria-colindex={at + 1} aria-sort={offer.now} key={name} class={`cell ${isNumber[name] === true ? "number" : ""}`}>
        <button type="button" class="quiet" aria-disabled={offer.search === null} title={help} onClick={() => sortBy(offer)}>
          {name}
          <span class="direction" aria-hidden="true">
            {{ ascending: "▲", descending: "▼", none: "" }[offer.now]}
          </span>
        </button>
      </div>
    );
  };
  const drawn: JSX.Element[] = [];
  const isEmpty = store.seen === 0 && store.problem !== null;
  for (let at = first; at <= last && !isEmpty; at += 1) {
    const row = store.row(at);
    const isActive = at === current.active;
    drawn.push(
      <div
        role="row"
        key={at}
        id={`row-${at}`}
        aria-rowindex={at + 2}
        aria-selected={isActive}
        aria-busy={row === undefined}
        data-id={row?.id}
        class={`row ${at % 2 === 0 ? "even" : "odd"} ${isActive ? "active" : ""} ${row === undefined ? "waiting" : ""}`}
        style={{ transform: `translateY(${at * current.rowHeight - scale.top}px)` }}
        onClick={() => {
          current.active = at;
          open(row);
        }}
      >
        {columns.map((name, column) => (
          <div
            role="gridcell"
            key={name}
            id={`cell-${at}-${column}`}
            aria-colindex={column + 1}
            class={`cell ${isNumber[name] === true ? "number" : ""} ${isActive && column === current.column ? "active" : ""}`}
          >
            {row === undefined ? "…" : formatCell(row[name])}
          </div>
        ))}
      </div>,
    );
  }
  return (
    <div
      ref={grid}
      class="grid"
      role="grid"
      tabIndex={0}
      aria-label={`${entity.name} records. Enter opens a record.`}
      aria-rowcount={store.ended ? store.seen + 1 : -1}
      aria-colcount={columns.length}
      aria-busy={store.isReading}
      aria-activedescendant={store.row(current.active) === undefined ? undefined : `cell-${current.active}-${current.column}`}
      data-records={store.kept.records}
      data-tokens={store.kept.tokens}
      data-seen={store.seen}
      data-ended={store.ended}
      data-top={scale.top}
      data-end={Math.max(0, rows * current.rowHeight - current.view)}
      onScroll={onScroll}
      onKeyDown={onKeyDown}
    >
      <div class="sizer" role="presentation" style={{ height: `calc(${scale.height}px + var(--head-height))`, ...template }}>
        <div class="window" role="presentation" style={{ height: `calc(${Math.min(current.view, Math.max(scale.height, 1))}px + var(--head-height))` }}>
          <div role="rowgroup" class="head">
            <div role="row" aria-rowindex={1} class="row">
              {columns.map(header)}
            </div>
          </div>
          <div role="rowgroup" class="rows" aria-label={`${count(store.seen)} records seen`}>
            {drawn}
          </div>
        </div>
      </div>
    </div>
  );
};
