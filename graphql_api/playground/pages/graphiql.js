// Starts GraphiQL. Its data comes from the server in the attribute data-page, because inline scripts are not allowed.
"use strict";

(() => {
  const root = document.getElementById("graphiql");
  const page = JSON.parse(root.dataset.page);
  const { createElement } = React;

  // --- storage of tabs, history and pane sizes, separate for each catalog -----------------------------------------

  // If cookies are blocked, the first access to localStorage throws. Then data is kept in memory until a reload.
  const store = (() => {
    try {
      localStorage.removeItem("shardql:");
      return localStorage;
    } catch {
      const memory = {};
      const nonEnumerable = (value) => ({ value, enumerable: false });
      return Object.defineProperties(memory, {
        getItem: nonEnumerable((key) => memory[key] ?? null),
        setItem: nonEnumerable((key, value) => void (memory[key] = String(value))),
        removeItem: nonEnumerable((key) => void delete memory[key]),
      });
    }
  })();

  // The theme is shared by all catalogs.
  const storeKey = (key) => (key === "graphiql:theme" ? key : `shardql:${page.title}:${key}`);
  const catalogKeys = () => Object.keys(store).filter((key) => key.startsWith(storeKey("")));
  const storage = {
    getItem: (key) => store.getItem(storeKey(key)),
    setItem: (key, value) => store.setItem(storeKey(key), value),
    removeItem: (key) => store.removeItem(storeKey(key)),
    clear: () => catalogKeys().forEach((key) => store.removeItem(key)),
    get length() {
      return catalogKeys().length;
    },
  };

  // --- tabs -------------------------------------------------------------------------------------------------------

  // The option `defaultTabs` of GraphiQL does not show variables at first, and adds an empty tab after a reload if the
  // open tab was never edited. So the script writes the stored state of GraphiQL before GraphiQL starts.
  const storedTabs = () => {
    if (storage.getItem("tabs-of") !== page.tabsId) return null;
    try {
      const state = JSON.parse(storage.getItem("graphiql:tabState"));
      return Array.isArray(state.tabs) && state.tabs[state.activeTabIndex] ? state : null;
    } catch {
      return null;
    }
  };
  const initialTabs = () => ({
    activeTabIndex: 0,
    tabs: page.tabs.map(({ title, query, variables }, number) => ({
      id: `${page.tabsId}-${number}`,
      hash: null,
      title,
      query,
      variables,
      headers: null,
      operationName: title,
      response: null,
    })),
  });
  // A link such as ?query=… opens a tab of its own. The parameters are removed, so that a reload adds no second tab.
  const addLinkedTab = (state) => {
    const linked = new URLSearchParams(location.search);
    if (!linked.get("query")) return;
    const name = linked.get("operationName") ?? /\b(?:query|mutation)\s+(\w+)/.exec(linked.get("query"))?.[1] ?? null;
    state.activeTabIndex = state.tabs.length;
    state.tabs.push({
      id: `linked-${Date.now()}`,
      hash: null,
      title: name ?? "<untitled>",
      query: linked.get("query"),
      variables: linked.get("variables"),
      headers: null,
      operationName: name,
      response: null,
    });
    history.replaceState(null, "", location.pathname);
  };

  const state = storedTabs() ?? initialTabs();
  addLinkedTab(state);
  const activeTab = state.tabs[state.activeTabIndex];
  const setOrRemove = (key, value) => (value ? storage.setItem(key, value) : storage.removeItem(key));
  storage.setItem("tabs-of", page.tabsId);
  storage.setItem("graphiql:tabState", JSON.stringify(state));
  setOrRemove("graphiql:query", activeTab.query);
  setOrRemove("graphiql:variables", activeTab.variables);
  if (storage.getItem("graphiql:shouldPersistHeaders") === "true") setOrRemove("graphiql:headers", activeTab.headers);

  // --- the page ---------------------------------------------------------------------------------------------------

  const send = GraphiQL.createFetcher({
    url: location.pathname, // includes the path prefix of a proxy
    enableIncrementalDelivery: false,
  });
  // Subscriptions are streams of server-sent events. The fetcher of GraphiQL would need a WebSocket client.
  const subscribe = (request, headers) => {
    const aborting = new AbortController();
    const results = readResults(request, headers, aborting.signal);
    return {
      [Symbol.asyncIterator]() {
        return this;
      },
      next: () => results.next(),
      return: () => {
        aborting.abort(); // `results.return()` would wait for the next event
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  };
  async function* readResults(request, headers, signal) {
    try {
      const response = await fetch(location.pathname, {
        method: "POST",
        headers: { ...headers, "content-type": "application/json", accept: "text/event-stream" },
        body: JSON.stringify(request),
        signal,
      });
      if (!response.ok) {
        yield await response.json();
        return;
      }
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (let part = await reader.read(); !part.done; part = await reader.read()) {
        const events = (text + part.value).split("\r\n\r\n");
        text = events.pop();
        for (const event of events) {
          const data = /^event: next\r\ndata: (.+)$/.exec(event)?.[1];
          if (data) yield JSON.parse(data);
        }
      }
    } catch (problem) {
      if (problem.name !== "AbortError") throw problem;
    }
  }
  const isSubscription = ({ operationName }, operations) =>
    (operations.find(({ name }) => name?.value === operationName) ?? operations[0])?.operation === "subscription";

  // GraphiQL updates the operation name 0.1 s after an edit. A request in this time has the previous name, which the
  // document no longer contains, so the name is omitted.
  const fetcher = (request, options) => {
    const { operationName, ...withoutName } = request;
    try {
      const operations = GraphiQL.GraphQL.parse(request.query).definitions.filter(({ operation }) => operation);
      const named = operations.some(({ name }) => name?.value === operationName) ? request : withoutName;
      return isSubscription(named, operations) ? subscribe(named, options?.headers) : send(named, options);
    } catch {
      return send(request, options); // not a valid document: the server reports the error
    }
  };
  const explorer = GraphiQLPluginExplorer.explorerPlugin({ showAttribution: false });
  ReactDOM.createRoot(root).render(
    createElement(
      GraphiQL,
      {
        fetcher,
        storage,
        plugins: [explorer],
        defaultHeaders: page.headers,
        defaultQuery: page.newTab,
        defaultEditorToolsVisibility: "variables",
        isHeadersEditorEnabled: true,
      },
      createElement(
        GraphiQL.Logo,
        null,
        page.title,
        page.dataPage ? createElement("a", { className: "data-page-link", href: page.dataPage }, "Data page") : null,
      ),
    ),
  );
})();
