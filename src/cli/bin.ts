/** The program `holdfast`. */

import { main } from "./main.ts";

// Set, not exited with: what was printed into a pipe is still to be written.
process.exitCode = await main(process.argv.slice(2), process);
