// Runs each audit of the package in a folder against a server URL, and prints the results as JSON.
const [folder, url] = process.argv.slice(2);
const { auditServer } = require(folder + "/lib/audits/server.js");

auditServer({ url }).then((results) => {
  const report = results.map(({ id, name, status, reason }) => ({ id, name, status, reason: reason ?? null }));
  process.stdout.write(JSON.stringify(report));
});
