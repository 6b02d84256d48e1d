// Executes the page query over decoded rows with graphql-jit and graphql-js, and serializes the response.
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const require = createRequire(join(process.env.BENCH_NODE_MODULES, 'index.js'));
const { buildSchema, execute, parse } = require('graphql');
const { compileQuery } = require('graphql-jit');

const schema = buildSchema(/* GraphQL */ `
  scalar Timestamp
  type User {
    userId: String! created: Timestamp! firstName: String! lastName: String! phone: String!
    city: String! visits: Int! height: Float! active: Boolean! note: String
  }
  type UserConnection { items: [User!]! nextToken: String }
  type Query { userByCreated(from: Timestamp, to: Timestamp, limit: Int, nextToken: String): UserConnection }
`);
const rows = JSON.parse(readFileSync(process.argv[2], 'utf8'));
let document;
let compiled;
const functions = {
  prepare({ query }) {
    document = parse(query);
    compiled = compileQuery(schema, document);
    return null;
  },
  jit({ count, times }) {
    const root = { userByCreated: { items: rows.slice(0, count), nextToken: null } };
    let text;
    for (let at = 0; at < times; at += 1) text = JSON.stringify(compiled.query(root, null, {}));
    return JSON.parse(text).data;
  },
  js({ count, times }) {
    const root = { userByCreated: { items: rows.slice(0, count), nextToken: null } };
    let text;
    for (let at = 0; at < times; at += 1) text = JSON.stringify(execute({ schema, document, rootValue: root }));
    return JSON.parse(text).data;
  },
};
for await (const line of createInterface({ input: process.stdin })) {
  const { call, arguments: given } = JSON.parse(line);
  console.log(JSON.stringify({ result: functions[call](given) ?? null }));
}
