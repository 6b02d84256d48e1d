// Starts the data page. Its data comes from the server in the attribute data-page, because inline scripts are not allowed.

import { render } from "preact";

import { App } from "./app";
import type { PageData } from "./session";

const root = document.getElementById("grid");
if (root !== null) {
  const page = JSON.parse(root.dataset["page"] ?? "{}") as PageData;
  root.replaceChildren();
  render(<App page={page} />, root);
}
