/** Whether the installed LangGraph is one that Holdfast's reliance on its inside (`langgraph.ts`) was tested with. */

import { createRequire } from "node:module";

/** Versions of LangGraph that the tests have run with, as major.minor. */
export const TESTED_LANGGRAPH: readonly string[] = ["1.7"];

const WARNED = Symbol.for("holdfast.langgraph.warned");

/** Warns, once a process, where the installed version is none of the tested ones. */
export function warnUntestedLangGraph(
  version: string | undefined = installedVersion(),
  warn: (message: string, options: { readonly code: string }) => void = process.emitWarning,
): void {
  const warned = globalThis as { [WARNED]?: boolean };
  if (warned[WARNED] === true || version === undefined) return;
  if (TESTED_LANGGRAPH.some((tested) => version.startsWith(`${tested}.`))) return;
  warned[WARNED] = true;
  warn(
    `@langchain/langgraph ${version} is installed; holdfast is tested with ${TESTED_LANGGRAPH.join(", ")}. It relies on LangGraph's ` +
      "inside where effects and waits find their place. Run your graph's crash matrix (holdfast/testing) before you trust it, or pin " +
      `@langchain/langgraph to ~${TESTED_LANGGRAPH.at(-1)}.`,
    { code: "HOLDFAST_UNTESTED_LANGGRAPH" },
  );
}

/** Undefined where the package cannot be found from here, for example in a bundle. */
function installedVersion(): string | undefined {
  try {
    const require = createRequire(import.meta.url);
    return (require("@langchain/langgraph/package.json") as { readonly version: string }).version;
  } catch {
    return undefined;
  }
}
