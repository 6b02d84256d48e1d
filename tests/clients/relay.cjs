// Builds the recipe of docs/how-to/clients.md with Relay and Babel, clicks through its lists, and prints their contents as JSON.
const { execFileSync } = require("node:child_process");
const { existsSync, readFileSync, readdirSync, rmSync, writeFileSync } = require("node:fs");
const { transformSync } = require("@babel/core");
const React = require("react");
const { RelayEnvironmentProvider } = require("react-relay");

const prefix = process.argv[2];

const compiler = require.resolve("relay-compiler/cli.js");
execFileSync(process.execPath, [compiler, "relay.config.js"], { stdio: ["ignore", "ignore", "inherit"] });
function build(source, built, plugins) {
  const { code } = transformSync(readFileSync(source, "utf8"), {
    filename: `${process.cwd()}/${source}`,
    babelrc: false,
    configFile: false,
    presets: [["@babel/preset-react", { runtime: "automatic" }]],
    plugins: [...plugins, "@babel/plugin-transform-modules-commonjs"],
  });
  writeFileSync(built, code);
}

build("environment.js", "environment.built.cjs", []);
build("People.jsx", "People.built.cjs", ["relay"]);
for (const name of readdirSync("__generated__")) build(`__generated__/${name}`, `__generated__/${name}`, []);

const consoleError = console.error;
console.error = (text, ...more) => String(text).includes("react-test-renderer is deprecated") || consoleError(text, ...more);
globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const { act, create } = require("react-test-renderer");
const { People } = require("./People.built.cjs");

const MAX_ATTEMPTS = 5;
const MOST_PAGES = 100;
const pause = (milliseconds) => act(() => new Promise((resume) => setTimeout(resume, milliseconds)));

class List {
  static async shown(properties) {
    delete require.cache[require.resolve("./environment.built.cjs")];
    const { environment } = require("./environment.built.cjs");
    const list = new List();
    list.properties = properties;
    list.element = (more) =>
      React.createElement(
        RelayEnvironmentProvider,
        { environment },
        React.createElement(React.Suspense, { fallback: null }, React.createElement(People, { prefix, ...properties, ...more })),
      );
    await act(async () => {
      list.tree = create(list.element());
    });
    await list.settled();
    return list;
  }

  // A suspended list shows nothing. While a page loads, the number of rows is unchanged.
  async settled(rows = -1) {
    const ends = Date.now() + 30_000;
    while (!this.tree.root.findAllByType("ol").length || this.ids().length === rows) {
      if (Date.now() > ends) throw new Error("The list does not change.");
      await pause(5);
    }
  }

  ids() {
    return this.tree.root.findAllByType("li").map(({ props }) => props.id);
  }

  button(name) {
    return this.tree.root.findAllByType("button").find(({ props }) => props.children === name);
  }

  async click(name) {
    const rows = this.ids().length;
    await act(async () => this.button(name).props.onClick());
    await this.settled(rows);
  }

  async sized(size) {
    await act(async () => this.tree.update(this.element({ size })));
  }

  async loadAll(name, sizes) {
    for (let at = 0; this.button(name); at += 1) {
      if (at === MOST_PAGES) throw new Error("The list does not end.");
      await this.sized(sizes[at % sizes.length]);
      await this.click(name);
    }
    return this.ids();
  }
}

async function main() {
  const report = {};

  const forward = await List.shown({ first: 20, size: 20 });
  report.forward = await forward.loadAll("After", [20, 7, 33]);

  const requests = [];
  const plain = globalThis.fetch;
  globalThis.fetch = (address, options) => {
    requests.push(JSON.parse(options.body));
    return plain(address, options);
  };
  await act(async () => forward.tree.root.findAllByType("li")[3].props.onClick());
  await forward.settled();
  globalThis.fetch = plain;
  report.again = { queries: requests.map(({ query }) => query), ids: forward.ids() };

  const backward = await List.shown({ last: 20, size: 20 });
  report.backward = await backward.loadAll("Before", [20, 7, 33]);

  const failing = await List.shown({ first: 20, size: 20 });
  writeFileSync("failing", "2");
  await failing.click("After");
  report.afterTwoFailures = failing.ids();
  report.failuresLeft = existsSync("failing");

  const broken = await List.shown({ first: 20, size: 20 });
  writeFileSync("failing", "1000");
  await act(async () => broken.button("After").props.onClick());
  while (JSON.parse(readFileSync("failing", "utf8")) > 1_000 - MAX_ATTEMPTS) await pause(20);
  await pause(200);
  report.afterGivingUp = broken.ids();
  rmSync("failing");

  const expiring = await List.shown({ first: 20, size: 20 });
  await expiring.click("After");
  report.beforeExpiry = expiring.ids().length;
  writeFileSync("late", "");
  await expiring.click("After");
  report.afterExpiry = expiring.ids();
  report.all = await expiring.loadAll("After", [20]);
  rmSync("late");

  process.stdout.write(JSON.stringify(report));
  process.exit();
}

main();
