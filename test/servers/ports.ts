/** Ports of 127.0.0.1. */

import { once } from "node:events";
import { createServer } from "node:net";

/** One that nobody listens on at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen({ port: 0, host: "127.0.0.1" });
  await once(server, "listening");
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, "close");
  return port;
}
