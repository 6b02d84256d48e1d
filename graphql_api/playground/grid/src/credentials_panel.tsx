// The credentials that the page sends: those of GraphiQL's headers, if GraphiQL keeps them, or others.

import type { JSX } from "preact";
import { useState } from "preact/hooks";

import type { Credentials } from "./api";
import { Panel } from "./panel";
import { useSession } from "./session";

const keyOf = (title: string): string => `shardql:${title}:credentials`;

const stored = (storage: () => Storage, key: string): string | null => {
  try {
    return storage().getItem(key);
  } catch {
    return null; // Storage is blocked.
  }
};

/** The credentials of this tab, else those that GraphiQL keeps. */
export const loadCredentials = (title: string): Credentials => {
  const own = stored(() => sessionStorage, keyOf(title));
  const graphiql = stored(() => localStorage, `shardql:${title}:graphiql:headers`);
  try {
    if (own !== null) return JSON.parse(own) as Credentials;
    const entries = Object.entries(JSON.parse(graphiql ?? "{}") as Record<string, string>);
    const headers = Object.fromEntries(entries.map(([name, value]) => [name.toLowerCase(), value]));
    return { authorization: headers["authorization"] ?? "", apiKey: headers["x-api-key"] ?? "" };
  } catch {
    return { authorization: "", apiKey: "" };
  }
};

const keepCredentials = (title: string, credentials: Credentials): void => {
  try {
    sessionStorage.setItem(keyOf(title), JSON.stringify(credentials));
  } catch {
    // Storage is blocked: they last until the page is left.
  }
};

export const CredentialsPanel = (): JSX.Element => {
  const { api, catalog, page, show, reload } = useSession();
  const [authorization, setAuthorization] = useState(api.credentials.authorization);
  const [apiKey, setApiKey] = useState(api.credentials.apiKey);
  const use = (credentials: Credentials): void => {
    api.credentials = credentials;
    keepCredentials(page.title, credentials);
    show({ panel: null });
    reload();
  };
  const apply = (): void => {
    const token = authorization.trim();
    use({ authorization: token === "" || token.includes(" ") ? token : `Bearer ${token}`, apiKey: apiKey.trim() });
  };
  return (
    <Panel title="Credentials">
      <p>{catalog.subject === null ? "You are anonymous." : `You are ${catalog.subject}.`}</p>
      {catalog.groups.length > 0 && <p class="hint">Groups: {catalog.groups.join(", ")}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          apply();
        }}
      >
        <label class="field">
          Bearer token
          <textarea rows={4} spellcheck={false} value={authorization} onInput={(event) => setAuthorization(event.currentTarget.value)} />
        </label>
        <label class="field">
          API key
          <input type="password" autocomplete="off" value={apiKey} onInput={(event) => setApiKey(event.currentTarget.value)} />
        </label>
        <div class="actions">
          <button type="submit" class="primary">
            Use them
          </button>
          <button type="button" onClick={() => use({ authorization: "", apiKey: "" })}>
            Be anonymous
          </button>
        </div>
        <p class="hint">
          They are kept until this tab is closed. In development, <code>shardql token</code> issues a token.
        </p>
      </form>
    </Panel>
  );
};
