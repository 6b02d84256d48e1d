// A new record.

import type { JSX } from "preact";

import type { Entity } from "./catalog";
import { Panel } from "./panel";
import { RecordForm } from "./record_form";
import { useSession } from "./session";

export const CreatePanel = ({ entity }: { entity: Entity }): JSX.Element => {
  const { show, say, refresh } = useSession();
  const close = (): void => show({ panel: null });
  return (
    <Panel title={`New ${entity.name}`}>
      <RecordForm
        entity={entity}
        record={null}
        onCancel={close}
        onReread={close}
        onDone={() => {
          close();
          say(`The ${entity.name} is created.`);
          refresh();
        }}
      />
    </Panel>
  );
};
