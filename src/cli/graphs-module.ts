/**
 * The user's module with the graphs: `export const graphs = (checkpointer) => ({ name: compiledGraph })`, or the same as its
 * default export; the function may be async.
 *
 * TypeScript is loaded through tsx, an optional peer; without it, by a Node that strips types itself.
 */

import { existsSync } from "node:fs";
import { extname, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Checkpointer } from "../checkpointer.ts";
import { HoldfastError } from "../errors.ts";
import type { RunnableGraph } from "../run.ts";

export type Graphs = Readonly<Record<string, RunnableGraph>>;

const TYPESCRIPT = [".ts", ".mts", ".cts", ".tsx"];
const SHAPE = "export const graphs = (checkpointer) => ({ name: compiledGraph })";

/** @throws INVALID_ARGUMENT where there is no such module, it cannot be loaded, or it has no graphs · DRIVER_MISSING */
export async function loadGraphs(file: string, checkpointer: Checkpointer): Promise<Graphs> {
  const path = resolve(file);
  if (!existsSync(path)) throw invalid(file, "There is no such file.");
  if (TYPESCRIPT.includes(extname(path))) await prepareTypeScript(file);
  const make = exported(await attempt(file, "cannot be loaded", () => import(pathToFileURL(path).href)));
  if (make === undefined) throw invalid(file, `It exports no function \`graphs\`. Write: ${SHAPE}`);
  const graphs = await attempt(file, "has thrown in `graphs`", () => make(checkpointer));
  if (typeof graphs !== "object" || graphs === null || Object.keys(graphs).length === 0)
    throw invalid(file, `Its \`graphs\` has made no graphs. Write: ${SHAPE}`);
  return graphs as Graphs;
}

type Make = (checkpointer: Checkpointer) => unknown;

/** A CommonJS module, also a compiled one, is the default export of what `import` gives. */
function exported(module: unknown): Make | undefined {
  const { graphs, default: main } = module as { readonly graphs?: unknown; readonly default?: unknown };
  const inner = (main ?? {}) as { readonly graphs?: unknown; readonly default?: unknown };
  return [graphs, main, inner.graphs, inner.default].find((found) => typeof found === "function") as Make | undefined;
}

async function prepareTypeScript(file: string): Promise<void> {
  try {
    const { register } = await import("tsx/esm/api");
    register();
  } catch (error) {
    if ((error as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw error;
    // Since 22.18: "strip" or "transform".
    if ((process.features as { readonly typescript?: unknown }).typescript) return;
    throw new HoldfastError(
      "DRIVER_MISSING",
      `${file} is TypeScript, which this Node (${process.version}) does not run by itself, and the package tsx is not installed: ` +
        "npm install tsx, or name the compiled file.",
      { cause: error },
    );
  }
}

/** What the user's code throws, with the place where it did. */
async function attempt<T>(file: string, what: string, act: () => T | Promise<T>): Promise<T> {
  try {
    return await act();
  } catch (error) {
    const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    const place = /^ +at .*$/m.exec((error as { stack?: string } | undefined)?.stack ?? "")?.[0];
    throw new HoldfastError(
      "INVALID_ARGUMENT",
      `--graphs ${file} ${what}: ${text}${place === undefined ? "" : `\n${place}`}`,
      {
        cause: error,
      },
    );
  }
}

const invalid = (file: string, why: string) => new HoldfastError("INVALID_ARGUMENT", `--graphs ${file}: ${why}`);
