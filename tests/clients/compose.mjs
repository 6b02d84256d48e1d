// Composes subgraphs, and prints the errors, or the SDL for clients of the gateway. Arguments: files with SDL.
import { composeServices, transformSupergraphToPublicSchema } from "@theguild/federation-composition";
import { parse, print } from "graphql";
import fs from "node:fs";

const services = process.argv.slice(2).map((name) => ({
  name: name.split(".")[0],
  url: `http://localhost/${name}`,
  typeDefs: parse(fs.readFileSync(name, "utf8")),
}));
const { errors, supergraphSdl } = composeServices(services);
const sdl = errors?.length ? null : print(transformSupergraphToPublicSchema(parse(supergraphSdl)));
process.stdout.write(JSON.stringify({ errors: (errors ?? []).map(({ message }) => message), sdl }));
