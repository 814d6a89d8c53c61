/** A database of an official LangGraph saver by URL, to be adopted. */

import { type AdoptSource, HoldfastError } from "holdfast";
import { nearest } from "../nearest.ts";

export interface SourceOptions {
  /** Schema of the tables, for Postgres. Default "public". */
  readonly schema?: string | undefined;
}

const schemes = ["langgraph-sqlite", "langgraph-postgres"] as const;
type Scheme = (typeof schemes)[number];

const placeholders: Record<Scheme, string> = {
  "langgraph-sqlite": '"langgraph-sqlite:file.db"',
  "langgraph-postgres": '"langgraph-postgres:postgresql://user:password@host:5432/database"',
};
const known = `${placeholders["langgraph-sqlite"]} or ${placeholders["langgraph-postgres"]}`;

/**
 * Opens a database of `@langchain/langgraph-checkpoint-sqlite` or `-postgres` for `adopt`. Only reads; what is written there
 * after the opening is not seen. Close it.
 *
 * @throws {HoldfastError} INVALID_ARGUMENT, CANNOT_OPEN, FOREIGN_DATABASE, DRIVER_MISSING
 */
export async function openSource(url: string, { schema }: SourceOptions = {}): Promise<AdoptSource> {
  const colon = typeof url === "string" ? url.indexOf(":") : -1;
  const [name, rest] = colon < 0 ? [String(url), ""] : [url.slice(0, colon), url.slice(colon + 1)];
  const scheme = schemes.find((candidate) => candidate === name);
  if (scheme === undefined || rest === "") {
    const meant = nearest(name, schemes) as Scheme | undefined;
    throw invalid(url, `${meant === undefined ? "" : `Did you mean ${placeholders[meant]}? `}Known are ${known}.`);
  }
  switch (scheme) {
    case "langgraph-sqlite":
      if (schema !== undefined) throw invalid(url, "An SQLite file has no schema: leave the option out.");
      return (await import("./sqlite-source.ts")).langgraphSqlite(rest);
    case "langgraph-postgres":
      return (await import("./postgres-source.ts")).langgraphPostgres(rest, schema ?? "public");
    default: {
      const never: never = scheme;
      return never;
    }
  }
}

function invalid(url: unknown, advice: string): HoldfastError {
  return new HoldfastError("INVALID_ARGUMENT", `${shown(url)} names nothing to adopt. ${advice}`, {
    details: { url: shown(url) },
  });
}

/** Without the password. */
const shown = (url: unknown): string => JSON.stringify(url)?.replace(/(\/\/[^:@/]*):[^@/]*@/, "$1:***@") ?? String(url);
