// An entity with a single record, which no search finds: it is read by its own field.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";

import { asProblem, Problem } from "./api";
import type { Entity } from "./catalog";
import { isAllowed } from "./catalog";
import type { Row } from "./page_store";
import { ProblemNotice } from "./problem_notice";
import { useSession } from "./session";

interface Props {
  entity: Entity;
  /** Changes when records were written. */
  written: number;
}

export const SingleRecord = ({ entity, written }: Props): JSX.Element => {
  const { run, show } = useSession();
  const [record, setRecord] = useState<Row | null | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [attempt, read] = useState(0);
  useEffect(() => {
    setProblem(null);
    run({ query: `query Single {\n  ${entity.record} {\n    id\n  }\n}`, variables: {} }).then(
      ({ data }) => setRecord(data[entity.record] as Row | null),
      (failure: unknown) => setProblem(asProblem(failure)),
    );
  }, [entity, written, attempt]);
  const mayCreate = entity.mutations.create !== undefined && isAllowed(entity.write);
  return (
    <>
      {problem !== null && <ProblemNotice problem={problem} retry={() => read(attempt + 1)} />}
      {record !== undefined && (
        <div class="notice">
          <p>
            {entity.name} has a single record{record === null ? ", which does not exist yet" : ""}.
          </p>
          <div class="actions">
            {record !== null && (
              <button type="button" onClick={() => show({ panel: "record", record: record.id })}>
                Open the record
              </button>
            )}
            {record === null && mayCreate && (
              <button type="button" onClick={() => show({ panel: "create" })}>
                Create it
              </button>
            )}
          </div>
        </div>
      )}
    </>
  );
};
