/**
 * The command line, as a function: what it prints goes to the terminal it is given, and its exit code is what it returns.
 *
 * Exit codes: 0 done; 1 failed, or done with differences or findings; 2 the command line is wrong, or asks for what a backend
 * does not do.
 */

import { readFileSync } from "node:fs";
import { Command, CommanderError, InvalidArgumentError } from "commander";
import { isHoldfastError } from "../errors.ts";
import { type AdoptFlags, adoptCommand } from "./adopt-command.ts";
import { type BackupFlags, backupCommand } from "./backup-command.ts";
import { type DoctorFlags, doctorCommand } from "./doctor-command.ts";
import { type ExitCode, Printer, type Terminal } from "./output.ts";
import { type WorkerFlags, workerCommand } from "./worker-command.ts";

/** @param args what follows the program's name */
export async function main(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const printer = new Printer(terminal, args.includes("--json"));
  let code: ExitCode = 0;
  const program = commands(terminal, printer, (ended) => {
    code = ended;
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return code;
  } catch (error) {
    // Commander has printed what is wrong, or the help that was asked for.
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    printer.error(error);
    return isHoldfastError(error, "INVALID_ARGUMENT") || isHoldfastError(error, "NOT_SUPPORTED") ? 2 : 1;
  }
}

function commands(terminal: Terminal, printer: Printer, ended: (code: ExitCode) => void): Command {
  const program = new Command("holdfast")
    .description("Durable execution for LangGraph.js: work with its databases.")
    .version(version())
    .exitOverride()
    .configureOutput({
      writeOut: (text) => void terminal.stdout.write(text),
      writeErr: (text) => void terminal.stderr.write(text),
    })
    .showHelpAfterError("(holdfast --help shows what is possible)");
  program
    .command("adopt")
    .description(
      "take over the database of LangGraph's own SQLite or Postgres saver; run it again after an interruption",
    )
    .argument("<source>", "langgraph-sqlite:FILE or langgraph-postgres:URL")
    .requiredOption("--into <url>", "where to, for example sqlite:holdfast.db")
    .option("--schema <name>", "schema of the source's tables, for Postgres (default: public)")
    .option("--into-schema <name>", "schema of the tables that are written, for Postgres (default: public)")
    .option("--json", "print the report as JSON")
    .action(async (source: string, flags: AdoptFlags) => ended(await adoptCommand(source, flags, printer)));
  program
    .command("backup")
    .description("copy a database while it is in use")
    .requiredOption("--url <url>", "the database, for example sqlite:holdfast.db")
    .requiredOption("--to <path>", "the copy; must not be there yet")
    .option("--json", "print the result as JSON")
    .action(async (flags: BackupFlags) => ended(await backupCommand(flags, printer)));
  runCommands(program, terminal, printer, ended);
  return program;
}

function runCommands(program: Command, terminal: Terminal, printer: Printer, ended: (code: ExitCode) => void): void {
  program
    .command("worker")
    .description("execute runs until SIGTERM or SIGINT: the first one drains, a second one aborts")
    .requiredOption("--url <url>", "the store, for example postgres://user@host/database")
    .requiredOption("--graphs <file>", "module that exports graphs = (checkpointer) => ({ name: compiledGraph })")
    .option("--concurrency <number>", "runs at once (default: 16)", wholeNumber(1))
    .option("--schema <name>", "schema of the tables, for Postgres")
    .option("--probe-port <port>", "serve /livez and /readyz on 127.0.0.1; 0 takes a free port", wholeNumber(0, 65_535))
    .option("--json", "print each line as JSON")
    .action(async (flags: WorkerFlags) => ended(await workerCommand(flags, printer, terminal)));
  program
    .command("doctor")
    .description("find what should not be: runs without a worker, waits nobody goes on with, effects in doubt")
    .requiredOption("--url <url>", "the store, for example sqlite:holdfast.db")
    .option("--graphs <file>", "module with the graphs that are served: finds runs of others")
    .option("--schema <name>", "schema of the tables, for Postgres")
    .option("--json", "print each finding as a line of JSON")
    .action(async (flags: DoctorFlags) => ended(await doctorCommand(flags, printer)));
}

function wholeNumber(min: number, max = 2 ** 31 - 1): (text: string) => number {
  return (text) => {
    const value = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Use a whole number from ${min} to ${max}.`);
  };
}

/** Of this package; the compiled files stand one folder deeper than the sources. */
function version(): string {
  const up = import.meta.url.endsWith(".ts") ? "../../package.json" : "../../../package.json";
  return (JSON.parse(readFileSync(new URL(up, import.meta.url), "utf8")) as { version: string }).version;
}
