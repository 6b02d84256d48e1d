// Starts GraphiQL. What it shows comes from the server, in an attribute: the page holds no script of its own.
"use strict";

(() => {
  const root = document.getElementById("graphiql");
  const page = JSON.parse(root.dataset.page);
  const { createElement } = React;

  // --- what the browser keeps: tabs, history and sizes, for each catalog by itself --------------------------------

  // A browser that keeps nothing (cookies blocked) refuses at the first touch; then memory has to do, until a reload.
  const shelf = (() => {
    try {
      localStorage.removeItem("shardql:");
      return localStorage;
    } catch {
      const memory = {};
      const hidden = (value) => ({ value, enumerable: false });
      return Object.defineProperties(memory, {
        getItem: hidden((key) => memory[key] ?? null),
        setItem: hidden((key, value) => void (memory[key] = String(value))),
        removeItem: hidden((key) => void delete memory[key]),
      });
    }
  })();

  // The theme is a matter of taste, not of the catalog.
  const shelved = (key) => (key === "graphiql:theme" ? key : `shardql:${page.title}:${key}`);
  const own = () => Object.keys(shelf).filter((key) => key.startsWith(shelved("")));
  const storage = {
    getItem: (key) => shelf.getItem(shelved(key)),
    setItem: (key, value) => shelf.setItem(shelved(key), value),
    removeItem: (key) => shelf.removeItem(shelved(key)),
    clear: () => own().forEach((key) => shelf.removeItem(key)),
    get length() {
      return own().length;
    },
  };

  // --- tabs -------------------------------------------------------------------------------------------------------

  // GraphiQL shows no variables of its `defaultTabs` at first, and adds an empty tab after a reload where the open one
  // was never edited. So its stored state is written before it starts, in its own form.
  const storedTabs = () => {
    if (storage.getItem("tabs-of") !== page.tabsId) return null;
    try {
      const state = JSON.parse(storage.getItem("graphiql:tabState"));
      return Array.isArray(state.tabs) && state.tabs[state.activeTabIndex] ? state : null;
    } catch {
      return null;
    }
  };
  const freshTabs = () => ({
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
  const state = storedTabs() ?? freshTabs();
  const open = state.tabs[state.activeTabIndex];
  const keep = (key, value) => (value ? storage.setItem(key, value) : storage.removeItem(key));
  storage.setItem("tabs-of", page.tabsId);
  storage.setItem("graphiql:tabState", JSON.stringify(state));
  keep("graphiql:query", open.query);
  keep("graphiql:variables", open.variables);
  if (storage.getItem("graphiql:shouldPersistHeaders") === "true") keep("graphiql:headers", open.headers);

  // --- the page ---------------------------------------------------------------------------------------------------

  const send = GraphiQL.createFetcher({
    url: location.pathname, // whatever a proxy has put in front of it
    enableIncrementalDelivery: false,
  });
  // GraphiQL learns a tenth of a second after a change what an operation is called. Who is quicker sends the name of the
  // one before, which the document does not have.
  const fetcher = (asked, options) => {
    const { operationName, ...rest } = asked;
    try {
      const named = GraphiQL.GraphQL.parse(asked.query).definitions.map((part) => part.name?.value);
      return send(named.includes(operationName) ? asked : rest, options);
    } catch {
      return send(asked, options); // no document: the server says what is wrong with it
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
      createElement(GraphiQL.Logo, null, page.title),
    ),
  );
})();
