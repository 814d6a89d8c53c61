/**
 * The outside world over HTTP. The first part of a path names the shop, `/<shop>/…`:
 *
 *     POST charge|reserve|mail|summarise     does the work; header `Idempotency-Key`; answer has `cached`
 *     GET  charge|reserve?key=…              what was answered under that key; 404 = nothing was ever done under it
 *     GET  mail?orderId=…                    { sent: [...] }, the sent folder
 *     POST refund|release                    takes a charge or a reservation back
 *     GET  ledger                            all counts
 *     POST faults                            { endpoint, kind, times?, delayMs? }
 *     POST reset                             forgets everything of the shop
 */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { Faults, isFaultKind } from "./faults.ts";
import { type Body, type Endpoint, isEndpoint, Shop } from "./shop.ts";

interface Desk {
  readonly shop: Shop;
  readonly faults: Faults;
}

const undoes: Readonly<Record<string, Endpoint>> = { refund: "charge", release: "reserve" };

/** The world as a server that is not listening yet. Its books are in memory and end with it. */
export function createWorld(): Server {
  const desks = new Map<string, Desk>();
  const deskOf = (name: string): Desk => {
    const desk = desks.get(name) ?? { shop: new Shop(), faults: new Faults() };
    desks.set(name, desk);
    return desk;
  };
  return createServer(async (request, response) => {
    const url = new URL(request.url ?? "/", "http://world");
    const [, shop = "", action = ""] = url.pathname.split("/");
    try {
      if (action === "reset") desks.delete(shop);
      const body = request.method === "POST" ? await readBody(request) : {};
      if (request.method === "GET") look(deskOf(shop).shop, action, url.searchParams, response);
      else act(deskOf(shop), action, body, request, response);
    } catch (error) {
      answer(response, 400, { error: String(error) });
    }
  });
}

function look(shop: Shop, action: string, query: URLSearchParams, response: ServerResponse): void {
  const key = query.get("key");
  if (action === "ledger") return answer(response, 200, { ledger: shop.ledger() });
  if (action === "mail") return answer(response, 200, { sent: shop.done("mail", query.get("orderId") ?? "") });
  const found = isEndpoint(action) && key !== null ? shop.find(action, key) : undefined;
  return found === undefined ? answer(response, 404, { error: "nothing was done" }) : answer(response, 200, found);
}

function act(desk: Desk, action: string, body: Body, request: IncomingMessage, response: ServerResponse): void {
  if (action === "reset") return answer(response, 200, {});
  if (action === "faults") return answer(response, 200, order(desk.faults, body));
  const undone = undoes[action];
  if (undone !== undefined) return answer(response, desk.shop.undo(undone, body) ? 200 : 404, {});
  if (!isEndpoint(action)) return answer(response, 404, { error: `there is no ${action}` });
  work(desk, action, body, request, response);
}

function work(
  { shop, faults }: Desk,
  endpoint: Endpoint,
  body: Body,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const fault = faults.take(endpoint);
  if (fault?.kind === "unavailable") return answer(response, 503, { executed: false });
  const key = request.headers["idempotency-key"];
  const result = shop.handle(endpoint, body, typeof key === "string" ? key : undefined);
  const kind = fault?.kind;
  switch (kind) {
    case undefined:
      return answer(response, 200, result);
    case "late":
      setTimeout(() => answer(response, 200, result), fault?.delayMs ?? 100);
      return;
    case "drop":
      request.socket.destroy();
      return;
    case "silent":
      return;
    default:
      throw new Error(`unknown fault ${String(kind satisfies never)}`);
  }
}

function order(faults: Faults, { endpoint, kind, times, delayMs }: Body): Body {
  if (typeof endpoint !== "string" || !isEndpoint(endpoint)) throw new Error(`no endpoint ${String(endpoint)}`);
  if (!isFaultKind(kind)) throw new Error(`no fault ${String(kind)}`);
  faults.add({
    endpoint,
    kind,
    ...(typeof times === "number" ? { times } : {}),
    ...(typeof delayMs === "number" ? { delayMs } : {}),
  });
  return {};
}

async function readBody(request: IncomingMessage): Promise<Body> {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk as string;
  return text === "" ? {} : (JSON.parse(text) as Body);
}

function answer(response: ServerResponse, status: number, body: Body): void {
  response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
}
