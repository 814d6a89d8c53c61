/**
 * Who asks, decided before anything else is looked at.
 *
 * - A1 With `authenticate`, its word alone counts: nobody without a `user` gets further.
 * - A2 Without it, only connections from this machine are served, by the address of the socket; where the server does not
 *   give it, nobody is. `Host`, `Forwarded` and their like are never a reason to serve, only reasons not to: a foreign
 *   `Host` is a browser that was sent here by a rebound name, a forwarding header is a proxy with the world behind it, a
 *   foreign `Origin` is another site's page.
 * - A3 A request that changes something must say that it is JSON, which no form of another site can.
 */

import { BlockList, isIP } from "node:net";
import { HoldfastError } from "../errors.ts";
import { Problem } from "./problem.ts";

/** Who asks. */
export interface Identity {
  /** Recorded with every decision. */
  readonly user: string;
  /** Only waits and threads of this owner are there for them; without one, all are. */
  readonly owner?: string | undefined;
}

/**
 * Who sent a request. Nothing (`undefined` or `null`): refused with 401. A `Response` (a redirect to a login, a 401 of
 * your own) is sent as it is.
 */
export type Authenticate = (
  request: Request,
) => Identity | Response | undefined | null | Promise<Identity | Response | undefined | null>;

/** What a Node server tells of the connection, as `@hono/node-server` hands it over. */
interface Connection {
  readonly incoming?: { readonly socket?: { readonly remoteAddress?: string | undefined } };
}

const LOOPBACK = new BlockList();
LOOPBACK.addSubnet("127.0.0.0", 8, "ipv4");
LOOPBACK.addAddress("::1", "ipv6");

const FORWARDING = ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip"];

/** @throws Problem UNAUTHENTICATED, FORBIDDEN */
export async function identify(
  request: Request,
  connection: unknown,
  authenticate: Authenticate | undefined,
): Promise<Identity | Response> {
  if (authenticate === undefined) {
    const reason = notLocal(request, (connection as Connection | undefined)?.incoming?.socket?.remoteAddress);
    if (reason === undefined) return { user: "local" };
    throw new Problem("FORBIDDEN", `Without \`authenticate\` only this machine is served: ${reason}.`);
  }
  const identity = await authenticate(request);
  if (identity === undefined || identity === null)
    throw new Problem("UNAUTHENTICATED", "The request does not say who sends it.");
  if (identity instanceof Response) return identity;
  const { user, owner } = identity;
  if (typeof user === "string" && user !== "" && (owner === undefined || (typeof owner === "string" && owner !== "")))
    return { user, owner };
  throw new HoldfastError(
    "INVALID_ARGUMENT",
    `authenticate() must resolve with { user: "who", owner?: "whose" } or nothing, got ${JSON.stringify({ user, owner })}.`,
  );
}

/** Why a request is not known to come from this machine, by a program that was meant to send it here. */
function notLocal(request: Request, remoteAddress: string | undefined): string | undefined {
  if (remoteAddress === undefined) return "the server does not tell the address of the connection";
  if (!isLoopback(remoteAddress)) return "the connection comes from another one";
  const { headers } = request;
  const forwarding = FORWARDING.find((name) => headers.has(name));
  if (forwarding !== undefined) return `a proxy has forwarded the request (${forwarding})`;
  const { host, hostname } = new URL(request.url);
  const named = headers.get("host") ?? host;
  if (!isLocalName(hostname) || named.toLowerCase() !== host) return "its Host names another one";
  const origin = headers.get("origin");
  if (origin !== null && hostOf(origin) !== host) return "a page of another site has sent it";
  const site = headers.get("sec-fetch-site");
  if (site !== null && site !== "same-origin" && site !== "none") return "a page of another site has sent it";
  return undefined;
}

function isLoopback(address: string): boolean {
  const family = isIP(address);
  return family !== 0 && LOOPBACK.check(address, family === 6 ? "ipv6" : "ipv4");
}

function isLocalName(hostname: string): boolean {
  return hostname === "localhost" || isLoopback(hostname.replace(/^\[(.+)\]$/, "$1"));
}

function hostOf(origin: string): string | undefined {
  return URL.canParse(origin) ? new URL(origin).host : undefined;
}

/** @throws Problem UNSUPPORTED_MEDIA_TYPE */
export function requireJson(request: Request): void {
  const type = request.headers.get("content-type")?.split(";", 1)[0]?.trim().toLowerCase();
  if (type === "application/json") return;
  throw new Problem("UNSUPPORTED_MEDIA_TYPE", "Send JSON, with `content-type: application/json`; the least is `{}`.");
}
