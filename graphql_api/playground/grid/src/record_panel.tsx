// One record: its properties, joins and history, and the ways to change it.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useState } from "preact/hooks";

import { asProblem, Problem } from "./api";
import type { Entity } from "./catalog";
import { accessText, entityOf, isAllowed, propertyOf, readable } from "./catalog";
import { deleteDocument, labelOf, recordDocument } from "./documents";
import type { Row } from "./page_store";
import { Panel } from "./panel";
import { ProblemNotice } from "./problem_notice";
import { RecordForm } from "./record_form";
import { HistoryList, JoinList } from "./record_lists";
import { uniqueKey, useSession } from "./session";
import { formatText } from "./values";

export const RecordPanel = ({ entity, id }: { entity: Entity; id: string }): JSX.Element => {
  const session = useSession();
  const [record, setRecord] = useState<Row | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [isMissing, setMissing] = useState(false);
  const [mode, setMode] = useState<"show" | "edit" | "delete">("show");
  const [reading, read] = useState(0);
  useEffect(() => {
    const abort = new AbortController();
    setProblem(null);
    session.run(recordDocument(session.catalog, entity, id), abort.signal).then(
      ({ data, problems }) => {
        const found = data["node"] as Row | null;
        setRecord(found);
        setMissing(found === null);
        setProblem(problems[0] ?? null);
      },
      (failure: unknown) => abort.signal.aborted || setProblem(asProblem(failure)),
    );
    return () => abort.abort();
  }, [entity, id, reading]);
  useLayoutEffect(() => setMode("show"), [id]); // before the record can be edited

  const label = record === null ? "" : formatText(record[labelOf(entity)]);
  const done = (text: string): void => {
    session.say(text);
    session.refresh();
  };
  return (
    <Panel title={`${entity.name}${label === "" ? "" : ` ${label}`}`} of={id}>
      {problem !== null && <ProblemNotice problem={problem} retry={() => read(reading + 1)} />}
      {isMissing && (
        <p class="notice" role="alert">
          This record does not exist any more. Close the panel, or choose another record.
        </p>
      )}
      {record !== null && mode === "show" && (
        <RecordView entity={entity} record={record} onEdit={() => setMode("edit")} onDelete={() => setMode("delete")} />
      )}
      {record !== null && mode === "edit" && (
        <RecordForm
          entity={entity}
          record={record}
          onCancel={() => setMode("show")}
          onReread={() => read(reading + 1)}
          onDone={() => {
            setMode("show");
            read(reading + 1);
            done(`The ${entity.name} is saved.`);
          }}
        />
      )}
      {record !== null && mode === "delete" && (
        <DeleteQuestion
          entity={entity}
          record={record}
          onCancel={() => setMode("show")}
          onReread={() => read(reading + 1)}
          onDone={() => {
            session.show({ panel: null, record: null });
            done(`The ${entity.name} is deleted.`);
          }}
        />
      )}
    </Panel>
  );
};

interface ViewProps {
  entity: Entity;
  record: Row;
  onEdit: () => void;
  onDelete: () => void;
}

const RecordView = ({ entity, record, onEdit, onDelete }: ViewProps): JSX.Element => {
  const { catalog } = useSession();
  const rules = accessText(entity.write);
  const may = isAllowed(entity.write);
  const joins = entity.joins.filter((join) => join.kind !== "page");
  return (
    <>
      <div class="actions">
        {may && entity.mutations.update !== undefined && (
          <button type="button" onClick={onEdit}>
            Edit
          </button>
        )}
        {may && entity.mutations.delete !== undefined && (
          <button type="button" onClick={onDelete}>
            Delete
          </button>
        )}
      </div>
      {catalog.readOnly && <p class="hint">The server is read-only: records cannot be changed.</p>}
      {!catalog.readOnly && rules !== "" && <p class="hint">Writes: {rules}</p>}
      <dl class="properties">
        {readable(entity).map((property) => (
          <div key={property.name}>
            <dt title={property.description ?? undefined}>
              {property.name} <small>{property.roles.join(", ")}</small>
            </dt>
            <dd>{record[property.name] === null ? <em>no value</em> : formatText(record[property.name])}</dd>
          </div>
        ))}
        {joins.map((join) => (
          <div key={join.name}>
            <dt title={join.description ?? undefined}>
              {join.name} <small>{join.target}</small>
            </dt>
            <dd>
              <Links target={join.target} value={record[join.name]} />
            </dd>
          </div>
        ))}
      </dl>
      {entity.joins
        .filter((join) => join.kind === "page")
        .map((join) => (
          <JoinList key={`${record.id} ${join.name}`} entity={entity} record={record} join={join} />
        ))}
      {entity.subIds.length > 0 && <HistoryList key={record.id} entity={entity} record={record} />}
    </>
  );
};

/** Links to joined records. */
const Links = ({ target, value }: { target: string; value: unknown }): JSX.Element => {
  const { catalog } = useSession();
  const entity = entityOf(catalog, target);
  const records = (Array.isArray(value) ? value : [value]) as (Row | null)[];
  if (value === null || value === undefined || entity === undefined) return <em>none</em>;
  return (
    <span class="links">
      {records.map((one, at) =>
        one === null ? <em key={at}>missing</em> : <RecordLink key={one.id} entity={entity} record={one} />,
      )}
    </span>
  );
};

export const RecordLink = ({ entity, record }: { entity: Entity; record: Row }): JSX.Element => {
  const { view, show } = useSession();
  const text = formatText(record[labelOf(entity)]) || record.id;
  const open = (): void => {
    if (view.entity === entity.name) show({ panel: "record", record: record.id });
    else show({ ...baseView(entity), panel: "record", record: record.id });
  };
  return (
    <button type="button" class="link" onClick={open}>
      {text}
    </button>
  );
};

const baseView = (entity: Entity): { entity: string; search: string; where: Record<string, string>; reverse: boolean; filters: []; any: boolean; history: string; columns: null } => {
  const usable = entity.searches.filter((one) => isAllowed(one.read) && one.unready === null);
  const search = usable.find((one) => one.required.length === 0) ?? usable[0] ?? entity.searches[0];
  return { entity: entity.name, search: search?.field ?? "", where: {}, reverse: false, filters: [], any: false, history: "ALL", columns: null };
};

interface DeleteProps {
  entity: Entity;
  record: Row;
  onCancel: () => void;
  onDone: () => void;
  onReread: () => void;
}

const DeleteQuestion = ({ entity, record, onCancel, onDone, onReread }: DeleteProps): JSX.Element => {
  const { catalog, run } = useSession();
  const [problem, setProblem] = useState<Problem | null>(null);
  const [key] = useState(uniqueKey);
  const version = entity.version === null ? undefined : record[entity.version];
  const remove = (): void => {
    run(deleteDocument(catalog, entity, record.id, version, key)).then(onDone, (failure: unknown) => setProblem(asProblem(failure)));
  };
  const isConflict = problem?.code === "VERSION_CONFLICT";
  return (
    <div role="group" aria-label="Delete">
      <p>
        Delete this {entity.name}: <strong>{formatText(record[labelOf(entity)])}</strong>? This cannot be undone.
      </p>
      {propertyOf(entity, entity.version ?? "") === undefined && (
        <p class="hint">{entity.name} has no version: deleting a record also deletes a change that another user made meanwhile.</p>
      )}
      {problem !== null && (
        <ProblemNotice problem={problem} retry={problem.retryable ? remove : undefined}>
          {isConflict && (
            <button
              type="button"
              onClick={() => {
                onCancel();
                onReread();
              }}
            >
              Show the present record
            </button>
          )}
        </ProblemNotice>
      )}
      <div class="actions">
        <button type="button" class="danger" onClick={remove} ref={(button) => button?.focus()}>
          Delete
        </button>
        <button type="button" onClick={onCancel}>
          Keep
        </button>
      </div>
    </div>
  );
};
