// Lints schema.graphql in the working directory with @graphql-eslint and graphql-schema-linter. Prints the errors as JSON.
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { promisify } from "node:util";
import graphql from "@graphql-eslint/eslint-plugin";
import { ESLint } from "eslint";

const { configs } = graphql;
const recommended = { ...configs["flat/schema-recommended"].rules, ...configs["flat/schema-relay"].rules };
const [, naming] = recommended["@graphql-eslint/naming-convention"];

// The example `orders` has the namespace of the document that it implements, and `issues` the enum values of its document.
const namespace = "^Plugin_";
const kinds = ["types", "FieldDefinition", "InputValueDefinition", "Argument"];
const inNamespace = Object.fromEntries(
  kinds.map((kind) => [kind, { ...(typeof naming[kind] === "string" ? { style: naming[kind] } : naming[kind]), ignorePattern: namespace }]),
);
const overrides = {
  "@graphql-eslint/naming-convention": [
    "error",
    { ...naming, ...inNamespace, EnumValueDefinition: { style: "UPPER_CASE", ignorePattern: "^(open|closed)$" } },
  ],
  // Pages also offer `items`, a list of records, to clients that need no cursors.
  "@graphql-eslint/relay-edge-types": ["error", { withEdgeSuffix: true, shouldImplementNode: true, listTypeCanWrapOnlyEdgeType: false }],
  // Records have an `id`; pages, edges, payloads and diagnostics are parts of a response, which no client stores by an id.
  "@graphql-eslint/strict-id-in-types": [
    "error",
    {
      acceptedIdNames: ["id"],
      acceptedIdTypes: ["ID"],
      exceptions: {
        types: ["PageInfo", "TotalCount", "SearchShards", "FailedShard", "FieldProblem", "WriteError"],
        suffixes: ["Connection", "Edge", "Payload", "Result"],
      },
    },
  ],
  // The id of a record is called by its entity, as in a foreign key: `userId`. Its global id is called `id`.
  "@graphql-eslint/no-typename-prefix": "off",
  // The interface `Connection` describes the fields of all connections once. The types of pages are objects.
  "@graphql-eslint/relay-connection-types": "off",
};
const eslint = new ESLint({
  overrideConfigFile: true,
  overrideConfig: {
    files: ["schema.graphql"],
    languageOptions: { parser: graphql.parser, parserOptions: { graphQLConfig: { schema: "./schema.graphql" } } },
    plugins: { "@graphql-eslint": graphql },
    rules: { ...recommended, ...overrides },
  },
});
const [{ messages }] = await eslint.lintFiles(["schema.graphql"]);

// Descriptions: each is said once, on the type, the interface or the property that it describes. Order: as declared.
// Connection: the interface of that name, as above. Names: the namespace and the enum values of the documents, as above.
const skipped =
  /^(arguments|fields|input-object-values|enum-values)-have-descriptions$|sorted-alphabetically$|^(relay-connection-types-spec|fields-are-camel-cased|types-are-capitalized|enum-values-all-caps)$/;
const linter = createRequire(import.meta.url).resolve("graphql-schema-linter/lib/cli.js");
const { stdout } = await promisify(execFile)(process.execPath, [linter, "--format", "json", "schema.graphql"], {
  maxBuffer: 2 ** 26,
}).catch((failed) => failed);
const { errors } = JSON.parse(stdout);
console.log(
  JSON.stringify([
    ...messages.map(({ line, ruleId, message }) => `${line}: ${ruleId}: ${message}`),
    ...errors.filter(({ rule }) => !skipped.test(rule)).map(({ location, rule, message }) => `${location.line}: ${rule}: ${message}`),
  ]),
);
