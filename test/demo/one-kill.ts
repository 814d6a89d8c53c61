/**
 * Kills the order graph on Holdfast at the point that is given, in the given working directory, and prints the
 * {@link KilledRun}: `node one-kill.js <backend> <point> <directory>`.
 */

import { fileURLToPath } from "node:url";
import { killedRun, unbrokenRun } from "../../examples/demo/killed-run.ts";
import { type DemoBackend, variants } from "../../examples/demo/variants.ts";
import { startWorld } from "../../examples/world/process.ts";

const [backend, point, directory] = process.argv.slice(2) as [DemoBackend, string, string];
const world = await startWorld();
const [variant] = variants(backend);
if (variant === undefined) throw new Error("There is no variant.");
const setting = {
  variant,
  graph: "order" as const,
  backend,
  directory,
  inbox: directory,
  world: world.url,
  program: fileURLToPath(import.meta.resolve("../../bundled/test/demo/broken-child.js")),
  operator: fileURLToPath(import.meta.resolve("../../bundled/examples/operator.js")),
  abort: new AbortController().signal,
};
try {
  const unbroken = await unbrokenRun(setting);
  console.log(JSON.stringify(await killedRun(setting, point, unbroken)));
} finally {
  await world.stop();
}
