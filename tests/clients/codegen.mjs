// Generates TypeScript from schema.graphql and operations.graphql, compiles it strictly, and runs the Relay compiler.
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { codegen } from "@graphql-codegen/core";
import * as typescript from "@graphql-codegen/typescript";
import * as operations from "@graphql-codegen/typescript-operations";
import { buildSchema, parse, printSchema } from "graphql";

const schema = buildSchema(readFileSync("schema.graphql", "utf8"));
const document = parse(readFileSync("operations.graphql", "utf8"));
const config = { strictScalars: true, enumsAsTypes: true, scalars: JSON.parse(process.argv[2]) };
const generate = async (filename, documents, name, plugin) => {
  const output = await codegen({
    filename,
    schema: parse(printSchema(schema)),
    documents,
    config,
    plugins: [{ [name]: {} }],
    pluginMap: { [name]: plugin },
  });
  writeFileSync(filename, output);
};
await generate("types.ts", [], "typescript", typescript);
await generate("operations.ts", [{ location: "operations.graphql", document }], "operations", operations);

const run = (program, ...options) => {
  try {
    execFileSync(process.execPath, [`node_modules/${program}`, ...options], { stdio: "pipe" });
  } catch ({ stdout, stderr }) {
    throw new Error(`${program}: ${stdout}${stderr}`);
  }
};
const strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "esnext", "--moduleResolution", "bundler", "--types", ""];
run("typescript/bin/tsc", ...strict, "types.ts", "use.ts");
run("relay-compiler/cli.js", "relay.config.json");
