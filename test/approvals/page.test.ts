/** The inbox page in a real browser. */

import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { serve as listen } from "@hono/node-server";
import { Hono } from "hono";
import { interrupt } from "@langchain/langgraph";
import { ask, type Checkpointer, waitFor } from "holdfast";
import type { Graphs } from "holdfast/approvals";
import type { Page } from "playwright-core";
import { describe, expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { card, newPage, noBrowser } from "./browser.ts";
import { oneNode, payment, type ServeOptions, served, thread } from "./served.ts";

async function opened<const G extends Graphs>(graphs: (checkpointer: Checkpointer) => G, options?: ServeOptions) {
  const site = await served(graphs, options);
  const server = listen({ fetch: site.approvals.fetch, port: 0, hostname: "127.0.0.1" });
  onTestFinished(() => {
    server.close();
    if ("closeAllConnections" in server) server.closeAllConnections();
  });
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const { page, messages } = await newPage();
  return { ...site, server, url, page, messages };
}

const refresh = (page: Page) => page.getByRole("button", { name: "Refresh" }).click();
const button = (page: Page, question: string, name: string) =>
  card(page, question).getByRole("button", { name, exact: true });
const until = (page: Page, question: string, text: string | RegExp) =>
  card(page, question).getByText(text).first().waitFor();

describe.skipIf(noBrowser !== undefined)(`in Chromium${noBrowser === undefined ? "" : ` (${noBrowser})`}`, () => {
  test("shows what is asked with all that is known of it, and an approval lets the thread go on", async () => {
    const now = Date.now() - 2 * 3_600_000 - 1000;
    const { approvals, graphs, page, url, messages, failures } = await opened(
      (saver) => ({
        ledger: oneNode(saver, async () => {
          const options = {
            details: { to: "ada", cents: 4200 },
            assignee: "bob",
            deadline: "1 hour",
            onDeadline: "hold",
          };
          const { decision, by } = await ask("Pay the invoice?", options as never);
          return { log: [`${decision} by ${by}`] };
        }),
      }),
      { saver: { now: () => now } },
    );
    await graphs.ledger.invoke({}, thread("order-17", { graph_id: "ledger" }));
    await page.goto(url);
    const shown = await card(page, "Pay the invoice?").textContent();
    for (const text of ["order-17", "ledger", "bob", "2 hours ago", '"to": "ada"', '"cents": 4200'])
      expect(shown).toContain(text);
    await button(page, "Pay the invoice?", "Approve").click();
    await until(page, "Pay the invoice?", /Approved by local/);
    await approvals.idle();
    expect((await graphs.ledger.getState(thread("order-17"))).values.log).toEqual(["approve by local"]);
    expect([messages, failures]).toEqual([[], []]);
  });

  test("what a graph asks is text and never markup, and the page loads nothing and runs nothing of it", async () => {
    const evil = `<img src=x onerror="document.title='run'"><script>document.title='run'</script>`;
    const { graphs, page, url, messages } = await opened((saver) => ({
      one: oneNode(saver, () => ask(evil, { details: { [evil]: evil } })),
    }));
    await graphs.one.invoke({}, thread(evil));
    const foreign: string[] = [];
    page.on(
      "request",
      (request) => !request.url().startsWith(url) && !request.url().startsWith("data:") && foreign.push(request.url()),
    );
    await page.goto(url);
    await card(page, evil).waitFor();
    expect(await card(page, evil).locator("img, script").count()).toBe(0);
    expect(await page.title()).toBe("Approvals");
    expect([foreign, messages]).toEqual([[], []]);
    // The policy itself holds: a script that somebody managed to put into the page does not run.
    await page.evaluate(`
      const script = document.createElement("script");
      script.textContent = "document.title = 'run'";
      document.body.append(script);`);
    expect(await page.title()).toBe("Approvals");
    expect(messages.join()).toContain("Content Security Policy");
  });

  test("a rejection carries its comment, an edit its value, a response its text or its JSON", async () => {
    const { approvals, graphs, page, url, get } = await opened((saver) => ({
      asks: oneNode(saver, async ({ amount }) => {
        const { decision, value, comment } = await ask(`Question ${amount}?`, { details: { amount } });
        return { log: [JSON.stringify([decision, value, comment])] };
      }),
    }));
    for (const amount of [1, 2, 3, 4]) await graphs.asks.invoke({ amount }, thread(`t${amount}`));
    await page.goto(url);
    await button(page, "Question 1?", "Reject…").click();
    await page.getByLabel("Why (optional)").fill("too much");
    await button(page, "Question 1?", "Reject").click();
    await until(page, "Question 1?", /Rejected by local.*too much/);

    await button(page, "Question 2?", "Edit…").click();
    const editor = page.getByLabel("Approve this instead (JSON)");
    expect(JSON.parse(await editor.inputValue())).toEqual({ amount: 2 });
    await editor.fill('{ "amount": 20, }');
    await until(page, "Question 2?", /This is no JSON/);
    expect(await editor.getAttribute("aria-invalid")).toBe("true");
    await button(page, "Question 2?", "Approve the edit").click();
    expect((await get("/approvals?thread=t2")).body.waits).toHaveLength(1);
    await editor.fill('{ "amount": 20 }');
    await page.getByLabel("Comment (optional)").fill("rounded");
    await button(page, "Question 2?", "Approve the edit").click();
    await until(page, "Question 2?", /Approved with changes by local.*rounded/);

    await button(page, "Question 3?", "Respond…").click();
    await page.getByLabel("Answer").fill("tomorrow");
    await button(page, "Question 3?", "Send").click();
    await until(page, "Question 3?", /Answered by local/);

    await button(page, "Question 4?", "Respond…").click();
    await page.getByLabel("Answer").fill('["a", 1]');
    await page.getByLabel("Is", { exact: true }).selectOption("json");
    await button(page, "Question 4?", "Send").click();
    await until(page, "Question 4?", /Answered by local/);

    await approvals.idle();
    const logs = [];
    for (const amount of [1, 2, 3, 4]) logs.push(...(await graphs.asks.getState(thread(`t${amount}`))).values.log);
    expect(logs.map((log) => JSON.parse(log))).toEqual([
      ["reject", null, "too much"],
      ["edit", { amount: 20 }, "rounded"],
      ["respond", "tomorrow", null],
      ["respond", ["a", 1], null],
    ]);
  });

  test("an answer that the question does not take is shown as refused, and what was written stays", async () => {
    const { graphs, page, url, open } = await opened((saver) => ({
      one: oneNode(saver, () => ask("How many?", { answer: z.object({ n: z.number() }) })),
    }));
    await graphs.one.invoke({}, thread("t"));
    await page.goto(url);
    expect(await card(page, "How many?").textContent()).toContain("Form of the answer");
    await button(page, "How many?", "Respond…").click();
    await page.getByLabel("Answer", { exact: true }).fill('{ "n": "one" }');
    await button(page, "How many?", "Send").click();
    await until(page, "How many?", /was not accepted/);
    expect(await page.getByLabel("Answer", { exact: true }).inputValue()).toBe('{ "n": "one" }');
    expect((await open()).status).toBe("open");
  });

  test("five pauses of one thread are answered one after the other, all on the page", async () => {
    const { approvals, graphs, page, url, failures } = await opened((saver) => ({
      one: oneNode(saver, async () => {
        const log: string[] = [];
        for (let n = 1; n <= 5; n++) log.push((await ask(`Step ${n}?`)).decision);
        return { log };
      }),
    }));
    await graphs.one.invoke({}, thread("t"));
    await page.goto(url);
    for (let n = 1; n <= 5; n++) {
      await button(page, `Step ${n}?`, "Approve").click();
      await until(page, `Step ${n}?`, /Approved by local/);
      await approvals.idle();
      await refresh(page);
    }
    expect((await graphs.one.getState(thread("t"))).values.log).toEqual(Array.from({ length: 5 }, () => "approve"));
    await page.getByText("Nothing waits for an answer.").waitFor();
    expect(failures).toEqual([]);
  });

  test("a fan-out of five questions is five entries, and plain interrupts are shown and answered too", async () => {
    const { graphs, page, url, approvals } = await opened((saver) => ({
      fan: oneNode(saver, () => Promise.all([1, 2, 3, 4, 5].map((n) => ask(`Part ${n}?`)))),
      plain: oneNode(saver, () => ({ log: [String(interrupt({ question: "Plain?", order: 17 }))] })),
    }));
    await graphs.fan.invoke({}, thread("fan", { graph_id: "fan" }));
    await graphs.plain.invoke({}, thread("plain", { graph_id: "plain" }));
    await page.goto(url);
    await page.getByText("6 open", { exact: true }).waitFor();
    for (const n of [1, 2, 3, 4, 5]) await card(page, `Part ${n}?`).waitFor();
    expect(await card(page, "Plain?").textContent()).toContain('"order": 17');
    await button(page, "Plain?", "Approve").click();
    await until(page, "Plain?", /Approved/);
    await approvals.idle();
    expect((await graphs.plain.getState(thread("plain"))).values.log).toEqual(["true"]);
  });

  test("whoever is too late sees the decision that won, on a click and while writing", async () => {
    const { graphs, page, url, post, get } = await opened((saver) => ({ payment: payment(saver) }), {
      options: { authenticate: ({ headers }) => ({ user: headers.get("x-user") ?? "reader" }) },
    });
    for (const amount of [1, 2]) await graphs.payment.invoke({ amount }, thread(`t${amount}`));
    await page.goto(url);
    await card(page, "Pay 2?").waitFor();
    await button(page, "Pay 2?", "Reject…").click();
    await page.getByLabel("Why (optional)").fill("still thinking");
    const ids = (await get("/approvals")).body.waits.map(({ id }) => id);
    for (const id of ids) await post(`/approvals/${id}/approve`, { comment: "done" }, { headers: { "x-user": "bob" } });
    await button(page, "Pay 2?", "Reject").click();
    await until(page, "Pay 2?", /Somebody else was faster. Approved by bob.*done/);
    await page.getByText("0 open").waitFor();

    await graphs.payment.invoke({ amount: 3 }, thread("t3"));
    await refresh(page);
    await button(page, "Pay 3?", "Edit…").click();
    const [third] = (await get("/approvals")).body.waits;
    await post(`/approvals/${third?.id}/reject`, {}, { headers: { "x-user": "eve" } });
    await refresh(page);
    await until(page, "Pay 3?", /Somebody else was faster. Rejected by eve/);
  });

  test("a double click is one decision", async () => {
    const { graphs, page, url, approvals, checkpointer } = await opened((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    await page.goto(url);
    await button(page, "Pay 1?", "Approve").dblclick();
    await until(page, "Pay 1?", /Approved by local/);
    await approvals.idle();
    expect(await checkpointer.verifyDecisions()).toEqual({ checked: 1, broken: [] });
  });

  test("the page asks again by itself: what is new appears, what others have decided goes", async () => {
    const { graphs, page, url, post, open } = await opened((saver) => ({ payment: payment(saver) }));
    await page.clock.install();
    await page.goto(url);
    await page.getByText("Nothing waits for an answer.").waitFor();
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    await page.clock.runFor(5000);
    await card(page, "Pay 1?").waitFor();
    await post(`/approvals/${(await open()).id}/approve`);
    await page.clock.runFor(5000);
    await card(page, "Pay 1?").waitFor({ state: "detached" });
    await page.getByText("Nothing waits for an answer.").waitFor();
  });

  test("a server that cannot be reached is said, and the list comes back with it", async () => {
    const { graphs, page, url, checkpointer } = await opened((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    await page.goto(url);
    await card(page, "Pay 1?").waitFor();
    const { waits } = checkpointer.backend;
    checkpointer.backend.waits = async () => {
      throw new Error("SELECT secret");
    };
    await refresh(page);
    await page.getByRole("alert").getByText("The list could not be read").waitFor();
    expect(await page.locator("body").textContent()).not.toContain("secret");
    checkpointer.backend.waits = waits;
    await page.route("**/approvals?*", (route) => route.abort());
    await refresh(page);
    await page.getByText("The server cannot be reached.").waitFor();
    await page.unroute("**/approvals?*");
    await refresh(page);
    await page.getByRole("alert").waitFor({ state: "hidden" });
    await card(page, "Pay 1?").waitFor();
  });

  test("more than a page is turned over, forth and back, and filters narrow it down", async () => {
    const { graphs, page, url } = await opened((saver) => ({
      asks: oneNode(saver, ({ amount }) => ask(`Number ${amount}?`, { assignee: amount % 2 === 0 ? "even" : "odd" })),
      waits: oneNode(saver, () => waitFor("paid")),
    }));
    for (let amount = 1; amount <= 30; amount++)
      await graphs.asks.invoke({ amount }, thread(`t${amount}`, { graph_id: "asks" }));
    await graphs.waits.invoke({}, thread("event", { graph_id: "waits" }));
    await page.goto(url);
    const count = async (expected: number, first: string) => {
      await card(page, first).waitFor();
      expect(await page.getByRole("article").count()).toBe(expected);
    };
    await count(25, "Number 1?");
    await page.getByRole("button", { name: "Next page" }).click();
    await count(5, "Number 26?");
    await page.getByRole("button", { name: "Previous page" }).click();
    await count(25, "Number 1?");
    await page.getByLabel("Assignee").fill("even");
    await page.keyboard.press("Tab");
    await page.getByText("15 open", { exact: true }).waitFor();
    await page.getByLabel("Assignee").fill("");
    await page.getByLabel("Thread").fill("event");
    await page.keyboard.press("Tab");
    await page.getByText("0 open", { exact: true }).waitFor();
    await page.getByLabel("Timers and events too").check();
    expect(await card(page, "paid").textContent()).toContain("when the event “paid” is delivered");
    expect(await card(page, "paid").getByRole("button").count()).toBe(0);
  });

  test("everything can be done with the keyboard, and the focus is never lost", async () => {
    const { graphs, page, url, approvals, get } = await opened((saver) => ({ payment: payment(saver) }));
    for (const amount of [1, 2]) await graphs.payment.invoke({ amount }, thread(`t${amount}`));
    await page.goto(url);
    await card(page, "Pay 1?").waitFor();
    const focused = () => page.evaluate<string>("document.activeElement?.textContent.trim() ?? ''");
    const tabTo = async (name: string) => {
      for (let i = 0; i < 40 && (await focused()) !== name; i++) await page.keyboard.press("Tab");
      expect(await focused()).toBe(name);
    };
    await tabTo("Reject…");
    await page.keyboard.press("Enter");
    await page.keyboard.type("no");
    await page.keyboard.press("Escape");
    expect(await focused()).toBe("Reject…");
    await page.keyboard.press("Enter");
    await page.keyboard.type("not this month");
    await tabTo("Reject");
    await page.keyboard.press("Enter");
    await until(page, "Pay 1?", /Rejected/);
    expect(await focused()).toMatch(/^Rejected by local/);
    await tabTo("Put away");
    await page.keyboard.press("Enter");
    expect(await focused()).toBe("Pay 2?");
    await tabTo("Approve");
    await page.keyboard.press("Space");
    await until(page, "Pay 2?", /Approved/);
    await approvals.idle();
    const { waits } = (await get("/approvals?status=consumed")).body;
    expect(waits.map(({ decision }) => [decision?.type, decision?.comment])).toEqual([
      ["reject", "not this month"],
      ["approve", null],
    ]);
  });

  test("every control has a name, and both colour schemes have enough contrast", async () => {
    const { graphs, url, page } = await opened((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await page.goto(url);
      await button(page, "Pay 1?", "Respond…").click();
      const unnamed = await page.evaluate(`
        [...document.querySelectorAll("button, input, select, textarea")]
          .filter((one) => one.textContent.trim() === "" && (one.labels?.length ?? 0) === 0)
          .map((one) => one.outerHTML)`);
      expect(unnamed).toEqual([]);
      expect(await page.evaluate(WEAK_CONTRAST)).toEqual([]);
    }
  });

  test("the page works below a path of another application, with and without a slash at its end", async () => {
    const { approvals, graphs, page } = await opened((saver) => ({ payment: payment(saver) }));
    await graphs.payment.invoke({ amount: 1 }, thread("t"));
    const server = listen({ fetch: new Hono().mount("/desk", approvals.fetch).fetch, port: 0, hostname: "127.0.0.1" });
    onTestFinished(() => void server.close());
    await once(server, "listening");
    for (const path of ["/desk", "/desk/"]) {
      await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`);
      await card(page, "Pay 1?").waitFor();
    }
  });
});

/** Texts whose contrast to what is behind them is below 4.5, the least of WCAG AA. Runs in the page. */
const WEAK_CONTRAST = `
  const channels = (color) => (color.match(/[\\d.]+/g) ?? []).map(Number);
  const luminance = (color) => {
    const [r, g, b] = channels(color)
      .map((value) => value / 255)
      .map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    if (element === null) return getComputedStyle(document.body).backgroundColor;
    const { backgroundColor } = getComputedStyle(element);
    return channels(backgroundColor)[3] === 0 ? behind(element.parentElement) : backgroundColor;
  };
  [...document.querySelectorAll("h1, h2, p, dt, dd, label, button, pre, input, select, textarea, time, span")]
    .filter((element) => element.checkVisibility() && !element.disabled)
    .flatMap((element) => {
      const [light, dark] = [getComputedStyle(element).color, behind(element)].map(luminance).sort((a, b) => b - a);
      const ratio = (light + 0.05) / (dark + 0.05);
      return ratio < 4.5 ? [element.tagName + " " + element.textContent.slice(0, 30) + " " + ratio.toFixed(2)] : [];
    })`;
