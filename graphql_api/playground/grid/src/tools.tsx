// The buttons above the grid.

import type { JSX } from "preact";

import type { Entity, Search } from "./catalog";
import { isAllowed } from "./catalog";
import { IncompleteSearch, pageDocument } from "./documents";
import { useSession } from "./session";
import type { PanelName } from "./view_state";
import { toAddress } from "./view_state";

interface Props {
  entity: Entity;
  search: Search | undefined;
  columns: string[];
}

export const Tools = ({ entity, search, columns }: Props): JSX.Element => {
  const { catalog, page, view, show, say } = useSession();
  const toggle = (panel: PanelName, label: string, detail = ""): JSX.Element => (
    <button
      type="button"
      aria-expanded={view.panel === panel}
      onClick={() => show({ panel: view.panel === panel ? null : panel, record: null })}
    >
      {label}
      {detail}
    </button>
  );
  const share = async (): Promise<void> => {
    const link = `${location.origin}${location.pathname}${toAddress(view)}`;
    try {
      await navigator.clipboard.writeText(link);
      say("The link is in the clipboard. It opens this view, with the rights of the user who opens it.");
    } catch {
      say(`The clipboard is blocked. The address of this page is the link: ${link}`);
    }
  };
  return (
    <div class="tools" role="toolbar" aria-label="Tools">
      {search !== undefined && toggle("filter", "Filter", view.filters.length > 0 ? ` (${view.filters.length})` : "")}
      {search !== undefined && toggle("columns", "Columns")}
      {toggle("cost", "Cost")}
      {search !== undefined && toggle("export", "Export")}
      {entity.mutations.create !== undefined && isAllowed(entity.write) && toggle("create", "New")}
      <label class="check" hidden={search === undefined} title="Show the records of the shards that answer, if one does not.">
        <input type="checkbox" checked={view.partial} onChange={(event) => show({ partial: event.currentTarget.checked })} />
        Skip failing shards
      </label>
      <span class="spring" />
      <button type="button" onClick={() => void share()}>
        Copy link
      </button>
      {page.graphiql !== null && search !== undefined && <GraphiQLLink href={graphiqlLink()} />}
    </div>
  );

  function graphiqlLink(): string | null {
    if (search === undefined || page.graphiql === null) return null;
    try {
      const { query, variables } = pageDocument(catalog, entity, search, view, columns, 20, null);
      return `${page.graphiql}?${new URLSearchParams({ query, variables: JSON.stringify(variables, null, 2) }).toString()}`;
    } catch (problem) {
      if (problem instanceof IncompleteSearch) return null;
      throw problem;
    }
  }
};

const GraphiQLLink = ({ href }: { href: string | null }): JSX.Element | null =>
  href === null ? null : (
    <a class="button" href={href}>
      Open in GraphiQL
    </a>
  );
