/** The command line without a process: what it prints, and its exit code. */

import { main } from "../../src/cli/main.ts";

export interface Printed {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export async function holdfast(
  args: readonly string[],
  { isTTY = false, env = {} }: { readonly isTTY?: boolean; readonly env?: Record<string, string> } = {},
): Promise<Printed> {
  const text = { stdout: "", stderr: "" };
  const output = (name: keyof typeof text) => ({
    isTTY,
    write: (piece: string) => {
      text[name] += piece;
    },
  });
  const code = await main(args, { stdout: output("stdout"), stderr: output("stderr"), env });
  return { code, ...text };
}
