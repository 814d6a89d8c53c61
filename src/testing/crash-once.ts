/**
 * `node crash-once.js <program> <plan> [args…]`: one place of a crash matrix, by hand. Prints the summary; exit code 1
 * where something is violated or the place is never reached.
 */

import { crashMatrix } from "./crash-matrix.ts";

const [program, plan, ...args] = process.argv.slice(2);
if (program === undefined || plan === undefined) {
  console.error(
    "usage: node crash-once.js <program> <plan> [args…]\nexample: node crash-once.js order.js commit:3:before",
  );
  process.exit(2);
}
try {
  await crashMatrix({ program, args, points: [plan] });
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}
