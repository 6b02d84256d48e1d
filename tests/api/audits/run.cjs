// Prints as JSON what each audit of the package in a folder says of the server at an address.
const [folder, url] = process.argv.slice(2);
const { auditServer } = require(folder + "/lib/audits/server.js");

auditServer({ url }).then((results) => {
  const told = results.map(({ id, name, status, reason }) => ({ id, name, status, reason: reason ?? null }));
  process.stdout.write(JSON.stringify(told));
});
