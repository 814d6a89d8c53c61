/** The demo as a command. */

import { fileURLToPath } from "node:url";
import { type DemoContext, type DemoResult, demo } from "./demo.ts";
import { type DemoOptions, help, readOptions } from "./options.ts";
import { progressOn } from "./progress.ts";
import { legend, tableOf } from "./summary.ts";

/** Of `npm run build`: a bundled program starts in a third of the time, and the demo starts hundreds. */
const bundled = (name: string) => fileURLToPath(new URL(`../../bundled/examples/${name}`, import.meta.url));

/** Runs the demo as a command; resolves with the exit code. `program` replaces the program that is killed. */
export async function command(args: readonly string[], program = bundled("demo/child.js")): Promise<number> {
  const options = readOptions(args);
  if (options === "help") {
    console.log(help);
    return 0;
  }
  if ("refused" in options) {
    console.error(`${options.refused}\n\n${help}`);
    return 2;
  }
  const interrupted = new AbortController();
  const interrupt = () => interrupted.abort(new Error("interrupted"));
  // Ctrl-C, a supervisor, a terminal that was closed.
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, interrupt);
  const context: DemoContext = {
    progress: progressOn(process.stderr),
    abort: interrupted.signal,
    program,
    operator: bundled("operator.js"),
  };
  try {
    return report(options, await demo(options, context));
  } catch (error) {
    if (interrupted.signal.aborted) return 130;
    console.error(error instanceof Error ? error.message : error);
    return 1;
  } finally {
    for (const signal of signals) process.off(signal, interrupt);
  }
}

function report(options: DemoOptions, result: DemoResult): number {
  const { rows, violations, seconds, kept } = result;
  if (options.json) console.log(JSON.stringify(result, null, 2));
  else {
    console.log(`\n${tableOf(rows)}\n\n${legend}\n`);
    const verdict = violations.length === 0 ? "Holdfast: nothing repeated, nothing lost." : "Holdfast has failed:";
    console.log([verdict, ...violations.map((text) => `  ${text}`)].join("\n"));
    console.log(`${seconds} s${kept === undefined ? "" : `; everything is in ${kept}`}`);
  }
  return violations.length === 0 ? 0 : 1;
}
