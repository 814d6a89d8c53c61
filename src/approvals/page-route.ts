/** The inbox page: one static file, which asks the endpoints beside it. */

import { hash } from "node:crypto";
import { readFileSync } from "node:fs";
import { createRoute, z } from "@hono/zod-openapi";
import type { HttpApp } from "./http-app.ts";
import { answers } from "./route-answers.ts";

const page = createRoute({
  method: "get",
  path: "/",
  summary: "The inbox page",
  responses: {
    200: { description: "HTML.", content: { "text/html": { schema: z.string() } } },
    ...answers(401, 403),
  },
});

export function pageRoute(app: HttpApp): void {
  let read: { readonly html: string; readonly policy: string } | undefined;
  app.openapi(page, (c) => {
    read ??= readPage();
    c.header("content-security-policy", read.policy);
    return c.html(read.html, 200);
  });
}

function readPage(): { readonly html: string; readonly policy: string } {
  const html = readFileSync(new URL("inbox.html", import.meta.url), "utf8");
  return { html, policy: policyOf(html) };
}

/** Only the script and the style that stand in the file may run, by their hashes; nothing is loaded from elsewhere. */
function policyOf(html: string): string {
  const source = (tag: string) => {
    const text = new RegExp(`<${tag}>([\\s\\S]*?)</${tag}>`).exec(html)?.[1] ?? "";
    return `'sha256-${hash("sha256", text, "base64")}'`;
  };
  return [
    "default-src 'none'",
    `script-src ${source("script")}`,
    `style-src ${source("style")}`,
    "connect-src 'self'",
    // The empty icon, without which browsers ask the server for one.
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join("; ");
}
