/** `npm run crash`: exit code 1 where anything was not as it must be, 2 where the command line is wrong. */

import { runCampaign } from "./campaign.ts";
import { readOptions } from "./options.ts";

function optionsOrExit() {
  try {
    return readOptions(process.argv.slice(2));
  } catch (error) {
    console.error(error instanceof Error ? error.message : error);
    return process.exit(2);
  }
}

// A worker that stands still does not see that we are gone: it is killed as we exit.
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));
process.exit((await runCampaign(optionsOrExit())) ? 0 : 1);
