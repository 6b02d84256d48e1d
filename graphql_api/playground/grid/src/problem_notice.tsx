// What happened, and how to go on.

import type { ComponentChildren, JSX } from "preact";

import { Problem, SERVER_LOST } from "./api";
import { useSession } from "./session";

const TOKEN_CODES = ["EXPIRED_TOKEN", "INVALID_TOKEN", "TOKEN_MISMATCH"];

const REMEDIES: Record<string, string> = {
  [SERVER_LOST]: "What was read stays on the page. Try again once the server runs.",
  UNAUTHENTICATED: "Enter a new token or API key.",
  FORBIDDEN: "Sign in with other credentials, or ask for the right to do this.",
  EXPIRED_TOKEN: "Page tokens are valid for a day. Start again from the first record.",
  INVALID_TOKEN: "The token belongs to other credentials. Start again from the first record.",
  TOKEN_MISMATCH: "Start again from the first record.",
  NOT_READY: "Try again later, or choose another order that is ready.",
  OVERLOADED: "The server has too much work. Try again in a moment.",
  OUTCOME_UNKNOWN: "Read the record again to see whether the write was applied.",
};

const SHARD_CODES = ["STORE_UNAVAILABLE", "THROTTLED"];

interface Props {
  problem: Problem;
  retry?: (() => void) | undefined;
  restart?: (() => void) | undefined;
  children?: ComponentChildren;
}

export const ProblemNotice = ({ problem, retry, restart, children }: Props): JSX.Element => {
  const { view, show } = useSession();
  const isToken = TOKEN_CODES.includes(problem.code);
  const isShard = SHARD_CODES.includes(problem.code);
  const remedy = REMEDIES[problem.code] ?? "";
  return (
    <div class="notice problem" role="alert">
      <p>
        <strong class="code">{problem.code}</strong> {problem.message}
      </p>
      {remedy !== "" && <p>{remedy}</p>}
      <div class="actions">
        {retry !== undefined && !isToken && (
          <button type="button" onClick={retry}>
            Try again
          </button>
        )}
        {isToken && restart !== undefined && (
          <button type="button" onClick={restart}>
            Start again
          </button>
        )}
        {(problem.code === "UNAUTHENTICATED" || problem.code === "FORBIDDEN") && (
          <button type="button" onClick={() => show({ panel: "credentials" })}>
            Credentials …
          </button>
        )}
        {isShard && restart !== undefined && !view.partial && (
          <button type="button" onClick={() => show({ partial: true })}>
            Show the records of the other shards
          </button>
        )}
        {children}
      </div>
    </div>
  );
};
