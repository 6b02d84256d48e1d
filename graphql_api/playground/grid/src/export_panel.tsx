// Export of the present search, with progress.

import type { JSX } from "preact";
import { useEffect, useReducer, useRef, useState } from "preact/hooks";

import { Problem } from "./api";
import type { Catalog, Entity, Search } from "./catalog";
import { readable } from "./catalog";
import { IncompleteSearch, pageDocument, pageOf, searchText } from "./documents";
import type { Format } from "./exporter";
import { canStream, downloadSink, Exporter, fileSink, MAX_IN_MEMORY } from "./exporter";
import { filterText } from "./filter_panel";
import { orderText } from "./orders";
import { Panel } from "./panel";
import { ProblemNotice } from "./problem_notice";
import { useSession } from "./session";
import { count, plural } from "./values";
import type { View } from "./view_state";
import { columnsOf } from "./view_state";

const NAMES: Record<Format, string> = { jsonl: "JSON lines", csv: "CSV" };

/** The command that exports what the view shows. */
const exportCommand = (catalog: Catalog, entity: Entity, search: Search, view: View, format: Format): string => {
  let text = "";
  try {
    text = ` '${searchText(catalog, entity, search, view).replaceAll("'", "'\\''")}'`;
  } catch (problem) {
    if (!(problem instanceof IncompleteSearch)) throw problem;
  }
  return `shardql export MODULE:CATALOG ${entity.name}${text}${format === "csv" ? " --csv" : ""} --output ${entity.name}.${format}`;
};

export const ExportPanel = ({ entity, search }: { entity: Entity; search: Search }): JSX.Element => {
  const { api, catalog, view, say } = useSession();
  const [format, setFormat] = useState<Format>("jsonl");
  const [all, setAll] = useState(true);
  const [, redraw] = useReducer((state: number) => state + 1, 0);
  const running = useRef<Exporter | null>(null);
  useEffect(() => () => running.current?.cancel(), []);
  const exporter = running.current;
  const names = all ? readable(entity).map((one) => one.name) : columnsOf(entity, search, view);
  const command = exportCommand(catalog, entity, search, view, format);

  const start = async (streams: boolean): Promise<void> => {
    const name = `${entity.name}.${format}`;
    try {
      const sink = streams ? await fileSink(name) : downloadSink(name, format);
      // A shard that fails must end the export: a file with gaps would look complete.
      const complete = { ...view, partial: false };
      const read = async (token: string | null, limit: number, signal: AbortSignal) => {
        const document = pageDocument(catalog, entity, search, complete, names, limit, token);
        const { data, problems } = await api.execute(document.query, document.variables, signal);
        if (problems[0] !== undefined) throw problems[0];
        return pageOf(data[search.field]);
      };
      const created = new Exporter(read, sink, format, names, () => redraw(0));
      running.current = created;
      redraw(0);
      await created.run();
      if (created.state === "finished") say(`Exported ${plural(created.records, "record")}.`);
    } catch (failure) {
      if (!(failure instanceof DOMException && failure.name === "AbortError")) throw failure;
    }
  };
  const isRunning = exporter?.state === "running";
  return (
    <Panel title="Export">
      <p>
        {entity.name} records, {orderText(search, view.reverse)}
        {view.filters.length > 0 && `, where ${view.filters.map(filterText).join(view.any ? " or " : " and ")}`}.
      </p>
      <fieldset disabled={isRunning}>
        <legend>Format</legend>
        {(["jsonl", "csv"] as const).map((one) => (
          <label class="check" key={one}>
            <input type="radio" name="format" checked={format === one} onChange={() => setFormat(one)} />
            {NAMES[one]}
          </label>
        ))}
      </fieldset>
      <fieldset disabled={isRunning}>
        <legend>Properties</legend>
        <label class="check">
          <input type="radio" name="properties" checked={all} onChange={() => setAll(true)} />
          all that you may read
        </label>
        <label class="check">
          <input type="radio" name="properties" checked={!all} onChange={() => setAll(false)} />
          the columns of the grid
        </label>
      </fieldset>
      <div class="actions">
        {canStream() && (
          <button type="button" class="primary" disabled={isRunning} onClick={() => void start(true)}>
            Export to a file …
          </button>
        )}
        <button type="button" disabled={isRunning} onClick={() => void start(false)}>
          Download
        </button>
        {isRunning && (
          <button type="button" onClick={() => exporter.cancel()}>
            Cancel
          </button>
        )}
      </div>
      {exporter !== null && <Progress exporter={exporter} command={command} />}
      <p class="hint">
        {canStream() ? "A file can have any number of records. " : "This browser cannot write to a file while it reads. "}A
        download has at most {count(MAX_IN_MEMORY)} records, since the browser holds it in memory. For more, run <code>{command}</code>.
      </p>
    </Panel>
  );
};

const Progress = ({ exporter, command }: { exporter: Exporter; command: string }): JSX.Element => {
  const records = plural(exporter.records, "record");
  const texts = {
    running: `Exporting: ${records} so far.`,
    finished: `Exported all ${records}.`,
    limited: `Exported the first ${records}, and more follow. For all of them, run: ${command}`,
    failed: `The export stopped after ${records}.`,
    cancelled: `Cancelled after ${records}.`,
  };
  return (
    <div class="progress">
      <p role="status" data-state={exporter.state}>
        {texts[exporter.state]}
      </p>
      {exporter.state === "running" && <progress aria-label="Export" />}
      {exporter.problem instanceof Problem && <ProblemNotice problem={exporter.problem} retry={() => void exporter.run()} />}
    </div>
  );
};
