/** pg, an optional peer: loaded when it is first needed, with one error that says what to do. */

import { HoldfastError } from "holdfast";

// What is used of pg, named here so that no declaration needs its types.

export interface PgQuery {
  readonly text: string;
  readonly values: unknown[];
  readonly rowMode: "array";
}

/** What is used of pg's `PoolClient`. */
export interface PgClient {
  query<R = Record<string, unknown>>(
    query: string | PgQuery,
    values?: unknown[],
  ): Promise<{ readonly rows: R[]; readonly rowCount: number | null }>;
  release(destroy?: boolean): void;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "end", listener: () => void): unknown;
  on(event: "notification", listener: (message: { readonly channel: string }) => void): unknown;
  unref?(): void;
}

/** What is used of pg's `Pool`. */
export interface PgPool {
  readonly options?: { readonly max?: number | undefined };
  connect(): Promise<PgClient>;
  on(event: "error", listener: (error: Error) => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
  end(): Promise<void>;
}

/** Those of a pool's options that are set. */
export interface PgPoolConfig {
  readonly connectionString: string;
  readonly application_name?: string;
  readonly max?: number;
  readonly connectionTimeoutMillis?: number;
  readonly keepAlive?: boolean;
  readonly allowExitOnIdle?: boolean;
}

/** @throws {HoldfastError} DRIVER_MISSING */
export async function newPool(config: PgPoolConfig): Promise<PgPool> {
  try {
    const { default: driver } = await import("pg");
    return new driver.Pool(config);
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "ERR_MODULE_NOT_FOUND") throw cause;
    throw new HoldfastError(
      "DRIVER_MISSING",
      "The package pg is not installed. Holdfast needs it for Postgres: npm install pg",
      { cause },
    );
  }
}
