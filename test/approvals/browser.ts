/** A real headless Chromium, one for a test file. */

import { existsSync } from "node:fs";
import { type Browser, chromium, type Page } from "playwright-core";
import { afterAll, onTestFinished } from "vitest";

const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Where it is: `CHROMIUM_PATH`, or one of the usual places. */
export const chromiumPath = [process.env["CHROMIUM_PATH"], ...PLACES].find((path) => path && existsSync(path));

/** Why there are no tests in a browser; undefined where there are. In CI a missing browser is a failure, not a reason. */
export const noBrowser =
  chromiumPath === undefined && process.env["CI"] === undefined
    ? "no Chromium: install one (apt-get install chromium) or set CHROMIUM_PATH"
    : undefined;

if (noBrowser !== undefined) console.warn(`Tests in a browser are skipped, ${noBrowser}.`);

let started: Promise<Browser> | undefined;

afterAll(async () => {
  await (await started)?.close();
});

/** A page of a new session; every message of its console and every failure in it is collected. */
export async function newPage(options: Parameters<Browser["newContext"]>[0] = {}) {
  if (chromiumPath === undefined) throw new Error("There is no Chromium here: set CHROMIUM_PATH.");
  started ??= chromium.launch({ executablePath: chromiumPath, args: ["--no-sandbox"] });
  const context = await (await started).newContext(options);
  onTestFinished(() => context.close());
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const messages: string[] = [];
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(`thrown: ${error.message}`));
  return { page, messages };
}

/** The card of a question. */
export const card = (page: Page, question: string) => page.getByRole("article", { name: question, exact: true });
