import { fileURLToPath } from "node:url";
import { command } from "../../examples/demo/command.ts";

process.exitCode = await command(
  process.argv.slice(2),
  fileURLToPath(import.meta.resolve("../../bundled/test/demo/broken-child.js")),
);
