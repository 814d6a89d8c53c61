/** The program `holdfast`. */

import { main } from "./main.ts";

const code = await main(process.argv.slice(2), process);
process.exitCode = code;
// What was printed into a pipe is still to be written. Then the end, also where a user's module, or an aborted node, holds a
// timer or a connection: everything of ours is closed.
process.stdout.write("", () => process.stderr.write("", () => process.exit(code)));
