"""Tools that clients use accept the schema of the examples: linters, TypeScript code generation, the Relay compiler."""

import json
import shutil
from pathlib import Path

import graphql
import pytest

from tests.clients.conftest import HERE, run, tool
from tests.docs.pages import ROOT

SCALARS = {
    "BigInt": "string | number",
    "DateTime": "string",
    "JSON": "unknown",
    "Timestamp": "number",
    "UUID": "string",
}

OPERATIONS = """
query People($prefix: String, $after: String) {
  userByFirstName(prefix: $prefix, first: 20, after: $after, filter: { phone: { exists: true } }) {
    edges { cursor node { ...Person } }
    pageInfo { hasNextPage endCursor }
    totalCount { value exact }
  }
}
fragment Person on User { id userId firstName phone }
mutation Change($input: UserPatch!) { updateUser(input: $input) { user { ...Person } } }
mutation AddAll($inputs: [IssueInput!]!, $key: String) {
  createIssues(inputs: $inputs, idempotencyKey: $key) {
    results { issue { id num state } error { code message retryable fields { field message } } }
  }
}
mutation Remove($inputs: [DeleteInput!]!) { deleteEmails(inputs: $inputs) { results { deletedId } } }
"""

USE = """
import type { PeopleQuery, ChangeMutationVariables, AddAllMutationVariables } from "./operations";

export const names = (page: PeopleQuery): (string | undefined)[] =>
  page.userByFirstName?.edges.map(({ node }) => node.firstName) ?? [];
export const change: ChangeMutationVariables = { input: { id: "u1", phone: null } };
// @ts-expect-error an update names its record
export const incomplete: ChangeMutationVariables = { input: { phone: null } };
export const issues: AddAllMutationVariables = {
  inputs: [{ projectId: "0f3a5b7e-0000-4000-8000-000000000001", name: "A name", state: "open" }],
};
"""

RELAY = """
module.exports.query = graphql`
  query useQuery($id: ID!) { user(id: $id) { ...use_person } }
`;
module.exports.person = graphql`
  fragment use_person on User { id firstName }
`;
module.exports.change = graphql`
  mutation useMutation($input: UserPatch!) { updateUser(input: $input) { user { ...use_person } } }
`;
"""


@pytest.fixture
def workspace(tmp_path: Path, packages: Path) -> Path:
    """A folder with the packages and the schema."""
    (tmp_path / "node_modules").symlink_to(packages)
    shutil.copy(ROOT / "schema.graphql", tmp_path)
    return tmp_path


def test_linters(workspace: Path) -> None:
    """@graphql-eslint and graphql-schema-linter find nothing, with the exceptions that `schema_lint.mjs` explains."""
    shutil.copy(HERE / "schema_lint.mjs", workspace)
    assert json.loads(run([tool("node"), "schema_lint.mjs"], workspace)) == []


def test_linters_find_faults(workspace: Path) -> None:
    """The linters report a type without a description, and a page type that Relay cannot use."""
    shutil.copy(HERE / "schema_lint.mjs", workspace)
    bad = '\n\ntype Broken_Thing { badName: Int }\n\n"""A page."""\ntype OddConnection { edges: [Int] }\n'
    with (workspace / "schema.graphql").open("a", encoding="utf-8") as schema:
        schema.write(bad)
    found = json.loads(run([tool("node"), "schema_lint.mjs"], workspace))
    rules = {line.split(": ")[1] for line in found}
    assert rules >= {
        "@graphql-eslint/require-description",
        "@graphql-eslint/naming-convention",
        "@graphql-eslint/no-unreachable-types",
        "@graphql-eslint/relay-edge-types",
    }


def test_generated_code(workspace: Path) -> None:
    """The TypeScript that graphql-codegen generates compiles strictly, and the Relay compiler accepts the schema."""
    schema = graphql.build_schema((workspace / "schema.graphql").read_text())
    assert not graphql.validate(schema, graphql.parse(OPERATIONS))
    shutil.copy(HERE / "codegen.mjs", workspace)
    (workspace / "operations.graphql").write_text(OPERATIONS)
    (workspace / "use.ts").write_text(USE)
    (workspace / "relay").mkdir()
    (workspace / "relay" / "use.js").write_text(RELAY)
    config = {"src": "relay", "schema": "schema.graphql", "language": "javascript"}
    (workspace / "relay.config.json").write_text(json.dumps(config))
    run([tool("node"), "codegen.mjs", json.dumps(SCALARS)], workspace)
