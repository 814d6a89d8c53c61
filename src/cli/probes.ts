/** What a supervisor asks a worker: whether the process answers, and whether it claims runs. Only on this machine. */

import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Hono } from "hono";
import { HoldfastError } from "../errors.ts";

export interface Probes {
  readonly port: number;
  close(): Promise<void>;
}

const HOST = "127.0.0.1";

export function probeApp(ready: () => boolean): Hono {
  return new Hono()
    .get("/livez", (context) => context.text("ok\n"))
    .get("/readyz", (context) => (ready() ? context.text("ready\n") : context.text("not ready\n", 503))) as Hono;
}

/** @param port 0: one that is free. @throws CANNOT_OPEN */
export async function serveProbes(port: number, ready: () => boolean): Promise<Probes> {
  const { fetch } = probeApp(ready);
  const server = await new Promise<ReturnType<typeof serve>>((resolve, reject) => {
    const listening = serve({ fetch, port, hostname: HOST }, () => resolve(listening));
    listening.once("error", (cause: Error) => {
      const text = `--probe-port ${port}: ${HOST}:${port} cannot be listened on: ${cause.message}. Name a free port, or 0.`;
      reject(new HoldfastError("CANNOT_OPEN", text, { cause }));
    });
  });
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        // Probes that keep their connection open would hold it.
        if ("closeAllConnections" in server) server.closeAllConnections();
      }),
  };
}
