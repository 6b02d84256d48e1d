// What all parts of the page share: the catalog, the server, the view, and the last request.

import { createContext } from "preact";
import { useContext } from "preact/hooks";

import type { Answer, Api, ExplainEntry, Problem } from "./api";
import type { Catalog } from "./catalog";
import type { Document } from "./documents";
import type { View } from "./view_state";

/** A request that was answered, for the cost panel. */
export interface Sent {
  document: Document;
  explain: ExplainEntry[];
  milliseconds: number;
  problem: Problem | null;
  failed: { shard: string; code: string; retryable: boolean }[];
}

export interface PageData {
  title: string;
  endpoint: string;
  graphiql: string | null;
}

export interface Session {
  page: PageData;
  api: Api;
  catalog: Catalog;
  view: View;
  last: Sent | null;
  /** Change the view. With `replace`, the back button does not return to the present one. */
  show: (change: Partial<View>, options?: { replace?: boolean }) => void;
  /** Execute an operation, and remember it for the cost panel. */
  run: (document: Document, signal?: AbortSignal) => Promise<Answer>;
  /** Say something to screen readers, and in the status line. */
  say: (text: string) => void;
  /** Read the shown records again, because some were written. */
  refresh: () => void;
  /** Read the description of the catalog again. */
  reload: () => void;
}

export const SessionContext = createContext<Session | null>(null);

export const useSession = (): Session => {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("There is no session.");
  return session;
};

/** A unique text for an idempotency key; `crypto.randomUUID` exists only on secure origins. */
export const uniqueKey = (): string =>
  [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
