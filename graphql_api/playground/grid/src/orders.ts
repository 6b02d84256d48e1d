// The orders that indexes serve, and why others are not offered.

import type { Entity, Search } from "./catalog";
import { isAllowed } from "./catalog";
import type { View } from "./view_state";

export interface OrderOffer {
  /** The search that serves the order; null: none does, or the caller may not use it. */
  search: Search | null;
  reverse: boolean;
  /** What the order is, or why it is not offered. */
  why: string;
  /** The present direction of the column. */
  now: "ascending" | "descending" | "none";
}

/** The order of a search as text: `state ascending, num descending`. */
export const orderText = (search: Search, reverse: boolean): string => {
  if (search.members !== null) return `${search.members.join(", then ")}, each in its own order`;
  const parts = search.sort.map((part) => `${part.property} ${part.descending !== reverse ? "descending" : "ascending"}`);
  return parts.length > 0 ? parts.join(", ") : `record id ${reverse ? "descending" : "ascending"}`;
};

/** Why a search cannot be used now; empty if it can. */
export const refusal = (search: Search): string => {
  if (!isAllowed(search.read)) return `allowed for ${search.read.rules?.join(" or ") || "no caller"}`;
  return search.unready === null ? "" : search.unready.message;
};

const leads = (search: Search, column: string): boolean => {
  const first = search.sort[0];
  return first !== undefined && (first.property === column || first.sources[0] === column);
};

const sameScope = (one: Search, other: Search): boolean =>
  one.required.map((part) => part.argument).join() === other.required.map((part) => part.argument).join();

/** The order by one column. A second choice of the same column reverses it. */
export const orderOfColumn = (entity: Entity, search: Search, view: View, column: string): OrderOffer => {
  if (leads(search, column)) {
    const isDescending = (search.sort[0]?.descending ?? false) !== view.reverse;
    const why = `Sorted by ${orderText(search, view.reverse)}. Choose again to reverse.`;
    return { search, reverse: !view.reverse, why, now: isDescending ? "descending" : "ascending" };
  }
  const serving = entity.searches.filter((one) => leads(one, column));
  const usable = serving.filter((one) => refusal(one) === "");
  // Another scope would show other records.
  const found = usable.find((one) => sameScope(one, search));
  if (found !== undefined) return { search: found, reverse: false, why: `Sort by ${orderText(found, false)}.`, now: "none" };
  return { search: null, reverse: false, why: whyNot(serving, search, column), now: "none" };
};

const whyNot = (serving: Search[], search: Search, column: string): string => {
  const first = serving[0];
  if (first === undefined) {
    const hash = search.required.flatMap((part) => part.properties);
    const scope = hash.length === 0 ? "" : `hash=[${hash.map((name) => `"${name}"`).join(", ")}], `;
    return `Not offered: no index has this order. Index(${scope}sort="${column}") would serve it.`;
  }
  const reason = refusal(first);
  if (reason !== "") return `Not offered: ${first.field} is ${reason}`;
  const needed = first.required.map((part) => part.argument).join(" and ");
  const scope = needed === "" ? "over all records" : `for one ${needed}`;
  return `Not offered here: ${first.field} has this order ${scope}. Choose it under Order.`;
};
