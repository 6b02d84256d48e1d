// The pages of one search: reads them in order, keeps the tokens of those it has seen, and the records of a few.

import { asProblem, Problem } from "./api";

export type Row = Record<string, unknown> & { id: string };

export interface FailedShard {
  shard: string;
  code: string;
  retryable: boolean;
}

export interface ReadPage {
  rows: Row[];
  nextToken: string | null;
  stoppedBy: string | null;
  failed: FailedShard[];
}

export type ReadFunction = (token: string | null, limit: number, signal: AbortSignal) => Promise<ReadPage>;

/** A part of the result that starts at a known token. */
interface Segment {
  token: string | null;
  start: number;
  length: number;
  /** Id of its last record, or null if only the number of records is known. */
  last: string | null;
}

export const LIMITS = {
  /** Records of a page. */
  page: 100,
  /** Most records of a request. */
  request: 500,
  /** Tokens that are kept; beyond, neighbours are joined. */
  tokens: 1000,
  /** Records that are kept. */
  records: 2000,
  /** Pages in a row that the read budget ended, before the reader must ask for more. */
  budgetPages: 5,
};

export class PageStore {
  private segments: Segment[] = [];
  private readonly rows = new Map<Segment, Row[]>();
  private frontier: string | null = null;
  private wanted: [number, number] = [0, 0];
  private isPumping = false;
  private abort = new AbortController();
  private budgetPages = 0;
  /** Records seen so far. */
  seen = 0;
  ended = false;
  problem: Problem | null = null;
  /** The reader must ask for more: several pages have spent the read budget without enough matches. */
  isPaused = false;
  /** Rows after this one must be read again, because records were changed meanwhile. */
  changedAfter: number | null = null;
  failed: FailedShard[] = [];
  reads = 0;

  constructor(
    private readonly read: ReadFunction,
    private readonly changed: () => void,
  ) {}

  /** Counts for tests and for the footer: what is kept. */
  get kept(): { records: number; tokens: number } {
    let records = 0;
    for (const rows of this.rows.values()) records += rows.length;
    return { records, tokens: this.segments.length };
  }

  get isReading(): boolean {
    return this.isPumping;
  }

  row(at: number): Row | undefined {
    const segment = this.segmentAt(at);
    return segment === undefined ? undefined : this.rows.get(segment)?.[at - segment.start];
  }

  /** Read what is missing of these rows. */
  show(first: number, last: number): void {
    this.wanted = [first, last];
    if (this.problem === null && !this.isPaused) void this.pump();
  }

  /** Try again after a problem, or go on after a pause. */
  resume(): void {
    this.problem = null;
    this.isPaused = false;
    this.budgetPages = 0;
    this.changed();
    void this.pump();
  }

  /** Read the kept records again, because some were written. */
  refresh(): void {
    this.rows.clear();
    if (this.segments.length === 0) this.ended = false;
    this.resume();
  }

  /** End the search: no answer changes the store any more. */
  close(): void {
    this.abort.abort();
  }

  // --- reading -----------------------------------------------------------------------------------------------------

  private async pump(): Promise<void> {
    if (this.isPumping || this.nextRead() === null) return;
    this.isPumping = true;
    try {
      for (let next = this.nextRead(); next !== null; next = this.nextRead()) {
        await next();
        this.changed();
        if (this.isPaused) break;
      }
    } catch (failure) {
      if (this.abort.signal.aborted) return;
      this.problem = asProblem(failure);
    } finally {
      this.isPumping = false;
      if (!this.abort.signal.aborted) this.changed();
    }
  }

  private nextRead(): (() => Promise<void>) | null {
    if (this.abort.signal.aborted) return null;
    const [first, last] = this.wanted;
    const missing = this.segments.find(
      (one) => one.start <= last && one.start + one.length > first && !this.rows.has(one),
    );
    if (missing !== undefined) return () => this.readAgain(missing);
    return last >= this.seen && !this.ended ? () => this.readNext() : null;
  }

  private async readNext(): Promise<void> {
    const token = this.frontier;
    const page = await this.request(token, LIMITS.page);
    this.append(token, page);
    const isShort = page.stoppedBy === "BUDGET" && page.rows.length < LIMITS.page;
    this.budgetPages = isShort ? this.budgetPages + 1 : 0;
    if (this.budgetPages >= LIMITS.budgetPages || (page.stoppedBy === "SHARDS" && page.rows.length === 0)) {
      this.isPaused = !this.ended;
    }
  }

  private append(token: string | null, page: ReadPage): void {
    this.failed = page.failed;
    this.frontier = page.nextToken;
    this.ended = page.nextToken === null;
    const last = page.rows.at(-1);
    if (last === undefined) return;
    const segment = { token, start: this.seen, length: page.rows.length, last: last.id };
    this.segments.push(segment);
    this.seen += page.rows.length;
    this.keep(segment, page.rows);
    this.thin();
  }

  /** Read a segment again. Records may have been written meanwhile: it ends at the same record as before, if it can. */
  private async readAgain(segment: Segment): Promise<void> {
    const wanted = Math.min(segment.length, LIMITS.request);
    const isLast = segment === this.segments.at(-1);
    let page = await this.request(segment.token, wanted);
    if (wanted < segment.length && page.rows.length === wanted && page.nextToken !== null) {
      this.split(segment, page.rows, page.nextToken);
      return;
    }
    let end = page.rows.findIndex((row) => row.id === segment.last);
    if (end < 0 && page.failed.length === 0 && page.nextToken !== null) {
      page = await this.request(segment.token, LIMITS.request);
      end = page.rows.findIndex((row) => row.id === segment.last);
    }
    if (isLast || end < 0 || page.failed.length > 0) this.truncate(segment, page);
    else this.fit(segment, page.rows.slice(0, end + 1));
  }

  private split(segment: Segment, rows: Row[], token: string): void {
    const rest = { token, start: segment.start + rows.length, length: segment.length - rows.length, last: segment.last };
    segment.length = rows.length;
    segment.last = rows.at(-1)?.id ?? null;
    this.segments.splice(this.segments.indexOf(segment) + 1, 0, rest);
    this.keep(segment, rows);
    this.thin();
  }

  private fit(segment: Segment, rows: Row[]): void {
    const shift = rows.length - segment.length;
    segment.length = rows.length;
    if (shift !== 0) {
      for (const later of this.segments.slice(this.segments.indexOf(segment) + 1)) later.start += shift;
      this.seen += shift;
    }
    this.keep(segment, rows);
  }

  /** The record that ended the segment is gone, so later tokens may overlap it: all that follows is read again. */
  private truncate(segment: Segment, page: ReadPage): void {
    const dropped = this.segments.splice(this.segments.indexOf(segment));
    for (const one of dropped) this.rows.delete(one);
    if (dropped.length > 1) this.changedAfter = segment.start + page.rows.length;
    this.seen = segment.start;
    this.append(segment.token, page);
  }

  private async request(token: string | null, limit: number): Promise<ReadPage> {
    this.reads += 1;
    const page = await this.read(token, limit, this.abort.signal);
    if (this.abort.signal.aborted) throw new DOMException("closed", "AbortError");
    return page;
  }

  // --- what is kept ------------------------------------------------------------------------------------------------

  private segmentAt(at: number): Segment | undefined {
    let low = 0;
    let high = this.segments.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      const one = this.segments[middle];
      if (one !== undefined && one.start + one.length <= at) low = middle + 1;
      else high = middle;
    }
    const found = this.segments[low];
    return found !== undefined && found.start <= at ? found : undefined;
  }

  private keep(segment: Segment, rows: Row[]): void {
    this.rows.set(segment, rows);
    let records = this.kept.records;
    for (const [old, kept] of this.rows) {
      if (records <= LIMITS.records) break;
      if (old === segment || this.isWanted(old)) continue;
      this.rows.delete(old);
      records -= kept.length;
    }
  }

  private isWanted(segment: Segment): boolean {
    const [first, last] = this.wanted;
    return segment.start <= last && segment.start + segment.length > first;
  }

  /** Join neighbours once there are too many tokens, into segments of even length. */
  private thin(): void {
    if (this.segments.length <= LIMITS.tokens) return;
    const most = Math.max(LIMITS.request, Math.ceil((2 * this.seen) / LIMITS.tokens));
    const joined: Segment[] = [];
    for (const one of this.segments) {
      const before = joined.at(-1);
      const fits = before !== undefined && before.length + one.length <= most;
      if (fits && !this.rows.has(before) && !this.rows.has(one)) {
        before.length += one.length;
        before.last = one.last;
      } else joined.push(one);
    }
    this.segments = joined;
  }
}
