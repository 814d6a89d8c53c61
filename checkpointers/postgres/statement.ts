/** The statement that sends a plan. */

import type { Plan } from "./planner.ts";
import { quote } from "./text.ts";

/** Of one statement, by the protocol. */
const PARAMETERS_MAX = 65_535;

/**
 * The call of the commit function: bodies and blobs are parameters of their own, so that nothing escapes them. Where there
 * are more than a statement takes, they are two arrays.
 */
export function statement(
  schema: string,
  parts: object,
  { texts, bytes }: Pick<Plan, "texts" | "bytes">,
): [text: string, values: unknown[]] {
  const list = (values: readonly unknown[], from: number) => values.map((_, at) => `$${from + at}`).join();
  const buffers = bytes.map((data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength));
  if (1 + texts.length + bytes.length > PARAMETERS_MAX) {
    return [
      `select ${quote(schema)}.holdfast_commit_1($1, $2::text[], $3::bytea[])`,
      [JSON.stringify(parts), texts, buffers],
    ];
  }
  return [
    `select ${quote(schema)}.holdfast_commit_1($1, array[${list(texts, 2)}]::text[], array[${list(bytes, 2 + texts.length)}]::bytea[])`,
    [JSON.stringify(parts), ...texts, ...buffers],
  ];
}
