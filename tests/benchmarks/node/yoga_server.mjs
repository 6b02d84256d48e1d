// graphql-yoga as contestant: `dynamodb` with SDK v3 and the table of BENCH_TABLE, or `static` with rows in memory.
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { readShardedPage } from './sharded_page.mjs';

const require = createRequire(join(process.env.BENCH_NODE_MODULES, 'index.js'));
const { createSchema, createYoga } = require('graphql-yoga');

const typeDefs = /* GraphQL */ `
  scalar Timestamp
  type User {
    userId: String! created: Timestamp! firstName: String! lastName: String! phone: String!
    city: String! visits: Int! height: Float! active: Boolean! note: String
  }
  type UserConnection { items: [User!]! nextToken: String }
  type Query { userByCreated(from: Timestamp, to: Timestamp, limit: Int, nextToken: String): UserConnection }
`;

function staticPages() {
  const rows = JSON.parse(readFileSync(process.argv[3], 'utf8'));
  return ({ from, to, limit, nextToken }) => {
    const start = nextToken == null ? from : Number(nextToken) + 1;
    let low = 0;
    let high = rows.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (rows[middle].created < start) low = middle + 1;
      else high = middle;
    }
    const items = [];
    for (let at = low; at < rows.length && rows[at].created <= to && items.length <= limit; at += 1) items.push(rows[at]);
    const last = items.length > limit ? String(items[limit - 1].created) : null;
    return { items: items.slice(0, limit), nextToken: last };
  };
}

function dynamoPages() {
  const { DynamoDBClient } = require('@aws-sdk/client-dynamodb');
  const { DynamoDBDocumentClient, QueryCommand } = require('@aws-sdk/lib-dynamodb');
  const index = JSON.parse(process.env.BENCH_TABLE);
  const requestHandler = { httpAgent: { maxSockets: 200, keepAlive: true } };
  const credentials = { accessKeyId: 'local', secretAccessKey: 'local' };
  const client = new DynamoDBClient({ region: 'us-east-1', endpoint: index.endpoint, credentials, requestHandler });
  const documents = DynamoDBDocumentClient.from(client);
  const attributes = 'userId created firstName lastName phone city visits height active note'.split(' ');
  const names = Object.fromEntries([...attributes, index.range_attribute].map((name, at) => [`#${at}`, name]));
  const bound = (created) => `created#${String(BigInt(created) + (1n << 63n)).padStart(20, '0')}`;
  const position = (row) => row[index.range_attribute];
  return async ({ from, to, limit, nextToken }) => {
    const read = async (hashKey, last, size) => {
      const after = last === undefined ? nextToken : position(last);
      const answer = await documents.send(new QueryCommand({
        TableName: index.table,
        IndexName: index.index,
        KeyConditionExpression: '#h = :h AND #r BETWEEN :a AND :b',
        ExpressionAttributeNames: { '#h': index.hash_attribute, '#r': index.range_attribute, ...names },
        ExpressionAttributeValues: { ':h': hashKey, ':a': after == null ? bound(from) : `${after}\0`, ':b': bound(to) },
        ProjectionExpression: Object.keys(names).join(','),
        Limit: size,
      }));
      return answer.Items;
    };
    const rows = await readShardedPage(index.hash_keys, limit + 1, read, position);
    return { items: rows.slice(0, limit), nextToken: rows.length > limit ? position(rows[limit - 1]) : null };
  };
}

const readPage = process.argv[2] === 'static' ? staticPages() : dynamoPages();
const schema = createSchema({ typeDefs, resolvers: { Query: { userByCreated: (_, variables) => readPage(variables) } } });
const server = createServer(createYoga({ schema, logging: false, graphiql: false, landingPage: false }));
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}/graphql`));
