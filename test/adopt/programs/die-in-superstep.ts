/**
 * `die-in-superstep.js <sqlite|postgres> <file|url> [schema]`: a graph on an official saver that is killed in the middle of a superstep,
 * when two of its three Sends have stored their results.
 */

import { setTimeout as rest } from "node:timers/promises";
import { officialSaver } from "../official-saver.ts";
import { at, fanOut } from "../graphs.ts";

const [kind = "", connection = "", schema] = process.argv.slice(2);
const saver = await officialSaver(kind as "sqlite" | "postgres", connection, schema);
const stored = new Set<string>();
const putWrites = saver.putWrites.bind(saver);
saver.putWrites = async (config, writes, task, path) => {
  await putWrites(config, writes, task, path);
  if (writes.some(([, value]) => String(value).startsWith("did "))) stored.add(task);
};
await fanOut(saver, {
  y: async () => {
    while (stored.size < 2) await rest(1);
    process.kill(process.pid, "SIGKILL");
  },
}).invoke({ log: ["begun"] }, at("killed"));
