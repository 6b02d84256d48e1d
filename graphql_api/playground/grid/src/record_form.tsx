// The form that creates or changes a record. Violations are shown at their fields.

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

import { asProblem, Problem } from "./api";
import type { Entity, InputField } from "./catalog";
import { accessText, propertyOf } from "./catalog";
import { recordDocument, writeDocument } from "./documents";
import type { Row } from "./page_store";
import { ProblemNotice } from "./problem_notice";
import { PropertyInput } from "./property_input";
import { uniqueKey, useSession } from "./session";
import { parseType } from "./type_names";
import { formatText, InvalidText, parseText } from "./values";

const CONTROLS = ["id", "expectedVersion"];

/** The text of a field, or null: no value. */
export type Draft = Record<string, string | null>;

interface Props {
  entity: Entity;
  /** The record to change; null: a new one. */
  record: Row | null;
  onDone: () => void;
  onCancel: () => void;
  onReread: () => void;
}

/** The property of an input field; a trailing underscore avoids a name that is taken. */
const propertyName = (field: string): string => field.replace(/_$/, "");

export const RecordForm = ({ entity, record, onDone, onCancel, onReread }: Props): JSX.Element => {
  const { catalog, run } = useSession();
  const verb = record === null ? "create" : "update";
  const inputType = catalog.types[parseType(entity.mutations[verb]?.arguments["input"] ?? "").name];
  const all = inputType?.kind === "input" ? inputType.fields : {};
  const fields = Object.entries(all).filter(([name]) => !CONTROLS.includes(name));
  const first = (of: Row | null): Draft =>
    Object.fromEntries(fields.map(([name]) => [name, of === null ? "" : (of[propertyName(name)] ?? null) === null ? null : formatText(of[propertyName(name)])]));
  const [stored, setStored] = useState<Row | null>(record);
  const [draft, setDraft] = useState<Draft>(() => first(record));
  const [violations, setViolations] = useState<Record<string, string>>({});
  const [problem, setProblem] = useState<Problem | null>(null);
  const [conflict, setConflict] = useState<Row | null>(null);
  const [isSaving, setSaving] = useState(false);
  const key = useRef(uniqueKey());
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>("input, select, textarea")?.focus(), []);
  useLayoutEffect(() => {
    if (Object.keys(violations).length > 0) form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus();
  }, [violations]);

  const change = (name: string, text: string | null): void => {
    key.current = uniqueKey();
    // Two fields may change before the next frame.
    setDraft((present) => ({ ...present, [name]: text }));
    setViolations((present) => Object.fromEntries(Object.entries(present).filter(([field]) => field !== name)));
  };

  /** The values to send: those that were changed, or entered. */
  const readDraft = (): { input: Record<string, unknown>; problems: Record<string, string> } => {
    const input: Record<string, unknown> = {};
    const problems: Record<string, string> = {};
    const before = first(stored);
    for (const [name, field] of fields) {
      const text = draft[name] ?? null;
      if (stored === null ? text === "" && !isText(field) : text === (before[name] ?? null)) continue;
      if (stored === null && text === "" && !field.required) continue;
      try {
        input[name] = text === null ? null : parseText(catalog, field.type, text);
      } catch (failure) {
        if (!(failure instanceof InvalidText)) throw failure;
        problems[name] = failure.message;
      }
    }
    for (const [name, field] of fields) {
      if (stored === null && field.required && !(name in input) && !(name in problems)) problems[name] = "Enter a value.";
    }
    return { input, problems };
  };

  const save = async (): Promise<void> => {
    const { input, problems } = readDraft();
    setViolations(problems);
    setProblem(null);
    if (Object.keys(problems).length > 0) return;
    if (stored !== null && Object.keys(input).length === 0) return onCancel();
    const version = entity.version === null || stored === null ? undefined : stored[entity.version];
    const controls = stored === null ? {} : { ...("id" in all ? { id: stored.id } : {}), ...versionControl(version) };
    const sent = key.current;
    setSaving(true);
    try {
      await run(writeDocument(entity, verb, { ...controls, ...input }, sent));
      onDone();
    } catch (failure) {
      await explain(asProblem(failure), sent);
    } finally {
      setSaving(false);
    }
  };

  /** The version that was read: the write is refused if the record has another one. */
  const versionControl = (version: unknown): Record<string, unknown> => {
    const control = all["expectedVersion"];
    return control === undefined ? {} : { expectedVersion: parseText(catalog, control.type, formatText(version)) };
  };

  /** Show a problem at its fields, if none has changed since it was sent; after a conflict, read what is stored. */
  const explain = async (found: Problem, sent: string): Promise<void> => {
    const known = new Map(fields.map(([name]) => [propertyName(name), name]));
    const at: Record<string, string> = {};
    for (const { field, message } of found.fields) at[known.get(field.split(".")[0] ?? "") ?? ""] = message;
    const argument = known.get(found.argument ?? "");
    if (argument !== undefined && !(argument in at)) at[argument] = found.message;
    delete at[""];
    if (sent === key.current) setViolations(at);
    setProblem(found);
    if (found.code !== "VERSION_CONFLICT" || stored === null) return;
    const answer = await run(recordDocument(catalog, entity, stored.id)).catch(() => null);
    setConflict((answer?.data["node"] as Row | null | undefined) ?? null);
  };

  const rebase = (): void => {
    if (conflict === null) return;
    const before = first(stored);
    const now = first(conflict);
    // Fields that were not changed here take the stored value.
    setDraft(Object.fromEntries(fields.map(([name]) => [name, (draft[name] ?? null) === (before[name] ?? null) ? (now[name] ?? null) : (draft[name] ?? null)])));
    setStored(conflict);
    setConflict(null);
    setProblem(null);
    key.current = uniqueKey();
  };
  const rules = accessText(entity.write);
  return (
    <form
      ref={form}
      class="record-form"
      noValidate
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
    >
      {problem !== null && (
        <ProblemNotice problem={problem} retry={problem.retryable ? () => void save() : undefined}>
          {problem.code === "VERSION_CONFLICT" && (
            <>
              {conflict !== null && (
                <button type="button" onClick={rebase}>
                  Keep my changes, on top of what is stored
                </button>
              )}
              <button
                type="button"
                onClick={() => {
                  onCancel();
                  onReread();
                }}
              >
                Drop my changes
              </button>
            </>
          )}
        </ProblemNotice>
      )}
      {conflict !== null && stored !== null && (
        <ul class="conflict" aria-label="Changed meanwhile">
          {fields
            .filter(([name]) => formatText(conflict[propertyName(name)]) !== formatText(stored[propertyName(name)]))
            .map(([name]) => (
              <li key={name}>
                {propertyName(name)}: was <q>{formatText(stored[propertyName(name)])}</q>, is now{" "}
                <q>{formatText(conflict[propertyName(name)])}</q>
              </li>
            ))}
        </ul>
      )}
      {fields.map(([name, field]) => (
        <PropertyInput
          key={name}
          name={name}
          field={field}
          property={propertyOf(entity, propertyName(name))}
          isNew={stored === null}
          text={draft[name] ?? null}
          violation={violations[name] ?? null}
          onChange={(text) => change(name, text)}
        />
      ))}
      {rules !== "" && <p class="hint">{rules}</p>}
      {stored !== null && entity.version === null && (
        <p class="hint">{entity.name} has no version: saving overwrites a change that another user makes meanwhile, and does not say so.</p>
      )}
      <div class="actions">
        <button type="submit" class="primary" disabled={isSaving}>
          {record === null ? "Create" : "Save"}
        </button>
        <button type="button" onClick={onCancel}>
          Cancel
        </button>
      </div>
    </form>
  );
};

const isText = (field: InputField): boolean => parseType(field.type).name === "String" && field.required;
