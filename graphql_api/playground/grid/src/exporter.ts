// Export of a search: reads all pages in order, and writes JSON lines or CSV.

import type { Problem } from "./api";
import { asProblem } from "./api";
import type { ReadFunction, Row } from "./page_store";
import { LIMITS } from "./page_store";
import { formatText } from "./values";

export type Format = "jsonl" | "csv";

/** Most records of an export that the browser holds in memory. */
export const MAX_IN_MEMORY = 100_000;
const RETRIES = 3;
const FIRST_PAUSE = 500;

export interface Sink {
  write: (text: string) => Promise<void>;
  close: () => Promise<void>;
  /** Most records; null: any number. */
  limit: number | null;
}

interface FileHandle {
  createWritable: () => Promise<{ write: (text: string) => Promise<void>; close: () => Promise<void> }>;
}

type Picker = (options: { suggestedName: string }) => Promise<FileHandle>;

export const canStream = (): boolean => "showSaveFilePicker" in window;

/** A file that the reader chooses, written while the export runs. */
export const fileSink = async (name: string): Promise<Sink> => {
  const pick = (window as unknown as { showSaveFilePicker: Picker }).showSaveFilePicker;
  const stream = await (await pick.call(window, { suggestedName: name })).createWritable();
  return { write: (text) => stream.write(text), close: () => stream.close(), limit: null };
};

/** A download, which the browser saves at the end. */
export const downloadSink = (name: string, format: Format): Sink => {
  const parts: string[] = [];
  const close = async (): Promise<void> => {
    const type = format === "csv" ? "text/csv" : "application/jsonl";
    const url = URL.createObjectURL(new Blob(parts, { type }));
    const link = document.createElement("a");
    Object.assign(link, { href: url, download: name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 60_000);
  };
  return { write: async (text) => void parts.push(text), close, limit: MAX_IN_MEMORY };
};

const csvCell = (value: unknown): string => {
  const text = formatText(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

const lineOf = (format: Format, names: string[], row: Row): string =>
  format === "csv"
    ? `${names.map((name) => csvCell(row[name])).join(",")}\r\n`
    : `${JSON.stringify(Object.fromEntries(names.map((name) => [name, row[name]])))}\n`;

export class Exporter {
  records = 0;
  state: "running" | "failed" | "finished" | "limited" | "cancelled" = "running";
  problem: Problem | null = null;
  private token: string | null = null;
  private isStarted = false;
  private readonly abort = new AbortController();

  constructor(
    private readonly read: ReadFunction,
    private readonly sink: Sink,
    private readonly format: Format,
    private readonly names: string[],
    private readonly changed: () => void,
  ) {}

  /** Export what is left. After a failure it goes on at the page that failed. */
  async run(): Promise<void> {
    this.state = "running";
    this.problem = null;
    try {
      if (!this.isStarted && this.format === "csv") await this.sink.write(`${this.names.map(csvCell).join(",")}\r\n`);
      while (this.state === "running") await this.exportPage();
      if (this.state !== "cancelled") await this.sink.close();
    } catch (failure) {
      if (this.abort.signal.aborted) return;
      this.problem = asProblem(failure);
      this.state = "failed";
    }
    this.changed();
  }

  cancel(): void {
    this.state = "cancelled";
    this.abort.abort();
    this.changed();
  }

  private async exportPage(): Promise<void> {
    const left = this.sink.limit === null ? LIMITS.request : this.sink.limit - this.records;
    const page = await this.readPage(Math.min(LIMITS.request, left));
    await this.sink.write(page.rows.map((row) => lineOf(this.format, this.names, row)).join(""));
    this.isStarted = true;
    this.records += page.rows.length;
    this.token = page.nextToken;
    if (this.token === null) this.state = "finished";
    else if (this.sink.limit !== null && this.records >= this.sink.limit) this.state = "limited";
    this.changed();
  }

  private async readPage(limit: number): Promise<Awaited<ReturnType<ReadFunction>>> {
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.read(this.token, limit, this.abort.signal);
      } catch (failure) {
        if (this.abort.signal.aborted || attempt > RETRIES || !asProblem(failure).retryable) throw failure;
        await new Promise((resolve) => setTimeout(resolve, Math.random() * FIRST_PAUSE * 2 ** attempt));
      }
    }
  }
}
