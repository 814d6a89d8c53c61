/**
 * What the command line prints: results on stdout, everything else on stderr, so that a pipe gets results only.
 *
 * With `--json` the result is one JSON document on stdout, or one a line where a command goes on, and an error one on stderr.
 * `NO_COLOR`, and an output that is no terminal, turn colours off.
 */

import { isHoldfastError } from "../errors.ts";

/** The part of a process that a command uses. */
export interface Terminal {
  readonly stdout: Output;
  readonly stderr: Output;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Absent where nobody can tell a command to end. */
  on?(signal: EndSignal, listener: () => void): unknown;
  off?(signal: EndSignal, listener: () => void): unknown;
}

export type EndSignal = "SIGINT" | "SIGTERM";

export interface Output {
  write(text: string): unknown;
  readonly isTTY?: boolean | undefined;
}

/** 0 done · 1 failed, or done with differences · 2 the command line is wrong, or asks for what cannot be. */
export type ExitCode = 0 | 1 | 2;

const COLORS = { bold: "1", dim: "2", red: "31", green: "32", yellow: "33" } as const;

export class Printer {
  readonly json: boolean;
  readonly #terminal: Terminal;
  #line = "";

  constructor(terminal: Terminal, json: boolean) {
    this.#terminal = terminal;
    this.json = json;
  }

  /** The result, as text for people, or as JSON. */
  result(text: () => string, value: unknown): void {
    this.#clear();
    this.#terminal.stdout.write(this.json ? `${JSON.stringify(value, undefined, 2)}\n` : `${text()}\n`);
  }

  /** One of many results of a command that goes on: a line for people, or of JSON. */
  line(text: () => string, value: unknown): void {
    this.#clear();
    this.#terminal.stdout.write(`${this.json ? JSON.stringify(value) : text()}\n`);
  }

  /** A line that the next one replaces, where somebody watches; else nothing. */
  progress(text: string): void {
    const { stderr } = this.#terminal;
    if (stderr.isTTY !== true) return;
    this.#clear();
    this.#line = text.slice(0, 110);
    stderr.write(this.#line);
  }

  /** A line that stays. */
  note(text: string): void {
    this.#clear();
    this.#terminal.stderr.write(`${text}\n`);
  }

  /** Without a stack: code, what happened, and what to do, which is what our messages hold. */
  error(error: unknown): void {
    this.#clear();
    const known = isHoldfastError(error);
    const code = known ? error.code : "UNEXPECTED";
    const message = (error instanceof Error ? error.message : String(error)).replace(` [${code}]`, "");
    const { stderr } = this.#terminal;
    if (this.json) stderr.write(`${JSON.stringify({ error: { code, message } })}\n`);
    else stderr.write(`${this.#paint(stderr, "red", `error ${code}`)} ${message}\n`);
  }

  /** For text on stdout. */
  color(name: keyof typeof COLORS, text: string): string {
    return this.#paint(this.#terminal.stdout, name, text);
  }

  #paint(output: Output, name: keyof typeof COLORS, text: string): string {
    const { NO_COLOR, TERM } = this.#terminal.env;
    const plain = output.isTTY !== true || (NO_COLOR !== undefined && NO_COLOR !== "") || TERM === "dumb";
    return plain ? text : `\u001b[${COLORS[name]}m${text}\u001b[0m`;
  }

  #clear(): void {
    if (this.#line === "") return;
    this.#terminal.stderr.write(`\r${" ".repeat(this.#line.length)}\r`);
    this.#line = "";
  }
}

/** Columns as wide as their widest cell; those named in `right` end at the right. */
export function table(rows: readonly (readonly string[])[], right: readonly number[] = []): string {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => (row[column] ?? "").length)));
  const line = (row: readonly string[]) =>
    row.map((cell, i) => (right.includes(i) ? cell.padStart(widths[i] ?? 0) : cell.padEnd(widths[i] ?? 0))).join("  ");
  return rows.map((row) => line(row).trimEnd()).join("\n");
}

/** 1234567 → "1.2 MB". */
export function bytesText(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  for (; value >= 1000 && unit < units.length - 1; unit += 1) value /= 1000;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}
