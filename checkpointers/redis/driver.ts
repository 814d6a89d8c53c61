/** ioredis, an optional peer: loaded when it is first needed, with one error that says what to do. */

import { createRequire } from "node:module";
import { HoldfastError } from "holdfast";

/** What is used of a client. An ioredis `Redis` or `Cluster` is one. */
export interface RedisClient {
  readonly status: string;
  call(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  callBuffer(command: string, ...args: (string | Buffer)[]): Promise<unknown>;
  on(event: "error", listener: (error: Error) => void): unknown;
  on(event: "ready", listener: () => void): unknown;
  on(event: "message", listener: () => void): unknown;
  off(event: "error", listener: (error: Error) => void): unknown;
  connect(): Promise<void>;
  disconnect(reconnect?: boolean): void;
  /** Another one to the same server. */
  duplicate?(): RedisClient;
  subscribe?(channel: string): Promise<unknown>;
}

/** Those of ioredis's options that are set; named here, so that no declaration needs the package. */
export interface ClientOptions {
  readonly maxRetriesPerRequest: number;
  readonly autoResendUnfulfilledCommands: boolean;
  readonly socketTimeout: number;
  readonly retryStrategy: (times: number) => number;
  readonly reconnectOnError: (error: Error) => boolean;
  readonly connectionName: string;
}

/** @throws {HoldfastError} DRIVER_MISSING */
export function newClient(url: string, options: ClientOptions): RedisClient {
  let driver: { readonly Redis: new (url: string, options: ClientOptions) => RedisClient };
  try {
    driver = createRequire(import.meta.url)("ioredis") as typeof driver;
  } catch (cause) {
    if ((cause as { code?: unknown }).code !== "MODULE_NOT_FOUND") throw cause;
    throw new HoldfastError(
      "DRIVER_MISSING",
      "The package ioredis is not installed. Holdfast needs it for Redis and Valkey: npm install ioredis",
      { cause },
    );
  }
  return new driver.Redis(url, options);
}
