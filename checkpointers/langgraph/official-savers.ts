/** LangGraph's own savers, optional peers: loaded when a database of theirs is adopted. */

import { createRequire } from "node:module";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { HoldfastError } from "holdfast";

/** What is used of an official saver: it only reads. */
export type OfficialReader = Pick<BaseCheckpointSaver, "getTuple" | "serde">;

export interface OfficialSaver<Connection> {
  /** Class and version, for reports. */
  readonly name: string;
  open(connection: Connection, schema?: string): OfficialReader;
}

/** @throws {HoldfastError} DRIVER_MISSING */
export async function sqliteSaver(): Promise<OfficialSaver<unknown>> {
  const name = "@langchain/langgraph-checkpoint-sqlite";
  try {
    const { SqliteSaver } = await import("@langchain/langgraph-checkpoint-sqlite");
    type Connection = ConstructorParameters<typeof SqliteSaver>[0];
    return {
      name: `SqliteSaver ${versionOf(name)}`,
      open: (connection) => new SqliteSaver(connection as Connection),
    };
  } catch (error) {
    throw missing(name, error);
  }
}

/** @throws {HoldfastError} DRIVER_MISSING */
export async function postgresSaver(): Promise<OfficialSaver<unknown>> {
  const name = "@langchain/langgraph-checkpoint-postgres";
  try {
    const { PostgresSaver } = await import("@langchain/langgraph-checkpoint-postgres");
    type Connection = ConstructorParameters<typeof PostgresSaver>[0];
    return {
      name: `PostgresSaver ${versionOf(name)}`,
      open: (connection, schema = "public") => new PostgresSaver(connection as Connection, undefined, { schema }),
    };
  } catch (error) {
    throw missing(name, error);
  }
}

function versionOf(name: string): string {
  const { version } = createRequire(import.meta.url)(`${name}/package.json`) as { version: string };
  return version;
}

function missing(name: string, cause: unknown): HoldfastError {
  return new HoldfastError(
    "DRIVER_MISSING",
    `The package ${name} cannot be loaded. A database of its saver is read, and the result compared, through it: npm install ${name}`,
    { cause, details: { package: name } },
  );
}
