/** A TCP proxy in front of a server, that does to its connections what networks do. */

import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { once } from "node:events";

/** What happens to a client's message. */
export type Fate =
  /** It arrives, and so does the answer. */
  | "pass"
  /** The connection is cut before it arrives. */
  | "cut before"
  /** It arrives and is answered; the connection is cut before the answer. */
  | "cut after"
  /** It arrives; from then on nothing passes, in either direction, and nobody is told. */
  | "half open"
  /** The client's connection is cut; the message is kept and arrives by `release`. */
  | "keep";

export interface TcpProxy {
  readonly port: number;
  /** Messages of clients that `decide` has seen. */
  readonly seen: number;
  /** Sends what was kept to the server, and waits until the server has answered or hung up. */
  release(): Promise<void>;
  /** Cuts every connection. */
  cut(): void;
  close(): Promise<void>;
}

/** `decide` is asked for each chunk that a client sends; local messages are small enough to come in one. */
export async function proxyTo(port: number, decide: (message: string) => Fate): Promise<TcpProxy> {
  const pairs = new Set<{ readonly client: Socket; readonly server: Socket }>();
  const kept: { readonly server: Socket; readonly data: Buffer }[] = [];
  let seen = 0;
  const listener = createServer((client) => {
    const server = connect(port, "127.0.0.1");
    const pair = { client, server };
    pairs.add(pair);
    let silent = false;
    let cutting = false;
    const end = () => {
      pairs.delete(pair);
      client.destroy();
      if (!kept.some((one) => one.server === server)) server.destroy();
    };
    for (const socket of [client, server]) socket.on("error", end);
    client.on("close", end);
    server.on("close", end);
    server.on("data", (data) => {
      if (cutting) end();
      else if (!silent) client.write(data);
    });
    client.on("data", (data) => {
      if (silent || cutting) return;
      const fate = decide(data.toString("latin1"));
      if (fate !== "pass") seen += 1;
      if (fate === "cut before") return end();
      if (fate === "keep") {
        kept.push({ server, data });
        cutting = true;
        client.destroy();
        return;
      }
      silent = fate === "half open";
      cutting = fate === "cut after";
      server.write(data);
    });
  });
  listener.listen(0, "127.0.0.1");
  await once(listener, "listening");
  return {
    port: (listener.address() as AddressInfo).port,
    get seen() {
      return seen;
    },
    release: async () => {
      for (const { server, data } of kept.splice(0)) {
        server.removeAllListeners("data");
        const answered = Promise.race([once(server, "data"), once(server, "close")]);
        server.write(data);
        await answered;
        server.destroy();
      }
    },
    cut: () => {
      for (const { client, server } of pairs) for (const socket of [client, server]) socket.destroy();
    },
    close: async () => {
      for (const { client, server } of pairs) for (const socket of [client, server]) socket.destroy();
      listener.close();
      await once(listener, "close");
    },
  };
}
