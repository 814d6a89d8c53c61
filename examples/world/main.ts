/**
 * The outside world as a process: listens on a free port of 127.0.0.1, prints `{"url": "…"}` as its only line, and ends
 * when its standard input does, so that it never outlives whoever started it.
 */

import type { AddressInfo } from "node:net";
import { createWorld } from "./server.ts";

const world = createWorld();
world.listen(0, "127.0.0.1", () => {
  const { port } = world.address() as AddressInfo;
  console.log(JSON.stringify({ url: `http://127.0.0.1:${port}` }));
});
process.stdin.resume().once("close", () => process.exit(0));
// Ctrl-C, and the end of a terminal, reach every process of it; the books are wanted until the one that started us has ended.
process.on("SIGINT", () => undefined).on("SIGHUP", () => undefined);
