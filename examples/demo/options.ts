import { resolve } from "node:path";
import { parseArgs } from "node:util";
import type { DemoBackend } from "./variants.ts";

export interface DemoOptions {
  readonly backend: DemoBackend;
  /** Points at which each graph is killed, in each variant. */
  readonly kills: number;
  /** Directory of the user's own text files; undefined = a small one is made. */
  readonly inbox: string | undefined;
  readonly json: boolean;
  /** Leaves databases, reports and receipts where they are, and says where. */
  readonly keep: boolean;
}

/** Fits three minutes on two cores, and hits every action of the orders on SQLite and JSONL. */
export const killsDefault = 17;

export const help = `Kills two real graphs with SIGKILL, point after point, and shows what is left of their work.

  npm run demo -- [options]

  --backend sqlite|jsonl   where Holdfast keeps its state (default sqlite)
  --kills N                points at which each graph is killed, spread evenly (default ${killsDefault})
  --inbox DIR              your own directory of .txt and .md files; it is only read
  --json                   one JSON document on standard output instead of the table
  --keep                   leave the databases, reports and receipts behind
  --help                   this text

Exit code: 0 nothing lost and nothing repeated by Holdfast; 1 a violation, which is named; 2 wrong options.`;

/** What the command line asks for; wrong options as a sentence. */
export function readOptions(args: readonly string[]): DemoOptions | "help" | { readonly refused: string } {
  let values: ReturnType<typeof parse>;
  try {
    values = parse(args);
  } catch (error) {
    return { refused: error instanceof Error ? error.message : String(error) };
  }
  if (values.help) return "help";
  const { backend, kills } = values;
  if (backend === "memory") {
    return {
      refused:
        "--backend memory cannot be shown: the memory of a process is gone when it is killed. Use sqlite or jsonl.",
    };
  }
  if (backend !== "sqlite" && backend !== "jsonl")
    return { refused: `--backend is ${JSON.stringify(backend)}; it is sqlite or jsonl.` };
  if (!/^[1-9]\d{0,5}$/.test(kills))
    return { refused: `--kills is ${JSON.stringify(kills)}; it is a whole number from 1.` };
  const inbox = values.inbox === undefined ? undefined : resolve(values.inbox);
  return { backend, kills: Number(kills), inbox, json: values.json, keep: values.keep };
}

function parse(args: readonly string[]) {
  return parseArgs({
    args: [...args],
    options: {
      backend: { type: "string", default: "sqlite" },
      kills: { type: "string", default: String(killsDefault) },
      inbox: { type: "string" },
      json: { type: "boolean", default: false },
      keep: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  }).values;
}
