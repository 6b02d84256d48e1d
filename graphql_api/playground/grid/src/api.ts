// Requests to the server. Every failure becomes a Problem with a code and a message.

import type { Catalog } from "./catalog";

export interface FieldProblem {
  field: string;
  message: string;
}

interface ErrorBody {
  message: string;
  path?: (string | number)[];
  extensions?: {
    code?: string;
    argument?: string;
    retryable?: boolean;
    fields?: FieldProblem[];
    version?: string | number | null;
    shard?: string;
    element?: string;
    state?: string;
    progress?: string;
  };
}

/** Code of a request that got no response. */
export const SERVER_LOST = "SERVER_LOST";
const BAD_RESPONSE = "BAD_RESPONSE";

export class Problem extends Error {
  readonly code: string;
  readonly argument: string | null;
  readonly retryable: boolean;
  readonly fields: FieldProblem[];
  readonly version: string | number | null;
  readonly explain: ExplainEntry[];

  constructor(body: ErrorBody, explain: ExplainEntry[] = []) {
    super(body.message);
    const extensions = body.extensions ?? {};
    this.code = extensions.code ?? BAD_RESPONSE;
    this.argument = extensions.argument ?? null;
    this.retryable = extensions.retryable ?? false;
    this.fields = extensions.fields ?? [];
    this.version = extensions.version ?? null;
    this.explain = explain;
  }
}

export interface ExplainEntry {
  path: (string | number)[];
  why?: string;
  entity?: string;
  index?: string;
  conditions?: string;
  order?: string[];
  shards?: number;
  hashKeys?: string[];
  limit?: number;
  estimate?: { least: number; expected: number; most: number };
  filter?: { conditions: string; testedOnRows: string[]; testedOnRecords: string[] };
  fetchesRecords?: boolean;
  read?: ExplainCost;
  write?: ExplainCost & { estimate?: { least: number; expected: number; most: number } };
  records?: number;
  [key: string]: unknown;
}

export interface ExplainCost {
  rounds?: number;
  reads?: number;
  recordsRead?: number;
  fetched?: number;
  milliseconds?: number;
  capacityUnits?: number;
  estimated?: boolean;
  returned?: number;
  byHashKey?: Record<string, number>;
  failedHashKeys?: Record<string, string>;
  costPerMillionPages?: number;
  costPerMillionWrites?: number;
  [key: string]: unknown;
}

export interface Answer {
  data: Record<string, unknown>;
  /** Errors of parts of the data; the rest is valid. */
  problems: Problem[];
  explain: ExplainEntry[];
  milliseconds: number;
}

export interface Credentials {
  authorization: string;
  apiKey: string;
}

export class Api {
  credentials: Credentials;
  explains = false;

  constructor(
    private readonly endpoint: string,
    private readonly catalogUrl: string,
    credentials: Credentials,
  ) {
    this.credentials = credentials;
  }

  async catalog(): Promise<Catalog> {
    const response = await this.send(this.catalogUrl, { headers: this.headers() });
    const body = (await this.json(response)) as Catalog & { errors?: ErrorBody[] };
    if (body.errors?.[0] !== undefined) throw new Problem(body.errors[0]);
    this.explains = body.explain;
    return body;
  }

  /** Execute an operation. An error without data is thrown. */
  async execute(query: string, variables: Record<string, unknown>, signal?: AbortSignal): Promise<Answer> {
    const started = performance.now();
    const headers = { ...this.headers(), "content-type": "application/json", ...(this.explains ? { "x-explain": "1" } : {}) };
    const init: RequestInit = { method: "POST", headers, body: JSON.stringify({ query, variables }) };
    const response = await this.send(this.endpoint, signal === undefined ? init : { ...init, signal });
    const body = (await this.json(response)) as {
      data?: Record<string, unknown> | null;
      errors?: ErrorBody[];
      extensions?: { explain?: ExplainEntry[] };
    };
    const explain = body.extensions?.explain ?? [];
    const problems = (body.errors ?? []).map((error) => new Problem(error, explain));
    const isEmpty = body.data === undefined || body.data === null || Object.values(body.data).every((one) => one === null);
    if (problems[0] !== undefined && isEmpty) throw problems[0];
    return { data: body.data ?? {}, problems, explain, milliseconds: performance.now() - started };
  }

  private headers(): Record<string, string> {
    const { authorization, apiKey } = this.credentials;
    return {
      accept: "application/graphql-response+json, application/json;q=0.9",
      "apollo-require-preflight": "1",
      ...(authorization === "" ? {} : { authorization }),
      ...(apiKey === "" ? {} : { "x-api-key": apiKey }),
    };
  }

  private async send(url: string, init: RequestInit): Promise<Response> {
    try {
      return await fetch(url, { ...init, cache: "no-store", credentials: "same-origin" });
    } catch (problem) {
      if (problem instanceof DOMException && problem.name === "AbortError") throw problem;
      const message = "The server does not answer: it has stopped, or the network is down.";
      throw new Problem({ message, extensions: { code: SERVER_LOST, retryable: true } });
    }
  }

  private async json(response: Response): Promise<unknown> {
    try {
      return await response.json();
    } catch {
      const message = `The server answered with status ${response.status}, and not with JSON.`;
      throw new Problem({ message, extensions: { code: BAD_RESPONSE, retryable: response.status >= 500 } });
    }
  }
}

export const asProblem = (failure: unknown): Problem =>
  failure instanceof Problem ? failure : new Problem({ message: String(failure instanceof Error ? failure.message : failure) });
