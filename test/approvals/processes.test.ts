/** Several real processes on one SQLite file: many answers at once, and death between the steps of one. */

import { copyFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { scratchDirectory } from "../backends/scratch.ts";
import type { Body } from "./served.ts";
import { counting, get, killedAt, post, type Site, site, stateOf, template } from "./sites.ts";

test("of 50 answers at once, half of them opposite, one is recorded; the equal ones are it, the others are refused with it", async () => {
  const { env, counts } = counting();
  const file = join(await scratchDirectory(), "holdfast.db");
  const first = await site(file, env, "sweep");
  const sites = [first, await site(file, env, "sweep")];
  await post(first.url, "/threads/t/runs", { assistant_id: "notice", input: { subject: "fire drill" } });
  const waits = async () => (await get(first.url, "/approvals?status=open")).waits;
  while ((await waits()).length === 0);
  const [wait] = await waits();

  const answers = await Promise.all(
    Array.from({ length: 50 }, async (_, i) => {
      const action = i % 4 < 2 ? "approve" : "reject";
      const { url } = sites[i % 2] as Site;
      return { action, ...(await post(url, `/approvals/${wait?.id}/${action}`, {}, `user-${i}`)) };
    }),
  );
  const winners = answers.filter(({ status, body }) => status === 200 && !body.replayed);
  expect(winners).toHaveLength(1);
  const [{ decision }] = winners.map(({ body }) => body) as [Body];
  for (const { action, status, body } of answers) {
    if (action === decision.type) expect([status, body.decision]).toEqual([200, decision]);
    else {
      expect([status, body.error.code]).toEqual([409, "ALREADY_ANSWERED"]);
      expect(body.error.details["decision"]).toEqual(decision);
    }
  }
  expect(answers.filter(({ status }) => status === 409)).toHaveLength(
    answers.filter(({ action }) => action !== decision.type).length,
  );

  while ((await stateOf(first)).next.length > 0);
  expect((await stateOf(first)).values).toMatchObject({
    decision: `${decision.type} by ${decision.by}`,
    sent: "sent fire drill",
  });
  expect(await counts()).toEqual({ "fire drill": 1 });
  const chain = await get(first.url, `/approvals/${wait?.id}/decisions`);
  expect(chain).toMatchObject({ decisions: [decision], checked: 1, broken: [] });
  await Promise.all(sites.map((one) => one.stop()));
});

/** Nothing is recorded; it is half recorded; it is recorded; the thread is held; the effect has happened and nobody knows. */
test.each(["commit:1:before", "commit:1:inside", "commit:1:after", "commit:2:after", "effect:send:1:inside"])(
  "killed at %s of an approval, another process finishes the thread with one effect",
  async (point) => killedAt(point, await template()),
);

test("killed between the decision and the resumption, the thread is finished by another process's timer", async () => {
  const { env, counts } = counting();
  const file = join(await scratchDirectory(), "holdfast.db");
  await copyFile(await template(), file);
  const first = await site(file, { ...env, HOLDFAST_KILL_AT: "commit:1:after" });
  const [wait] = (await get(first.url, "/approvals")).waits;
  await post(first.url, `/approvals/${wait?.id}/approve`, {}).catch(() => {});
  expect(await first.ended).toBe("SIGKILL");
  const second = await site(file, env, "sweep");
  while ((await stateOf(second)).next.length > 0);
  expect(await counts()).toEqual({ "fire drill": 1 });
  expect((await get(second.url, `/approvals/${wait?.id}`)).status).toBe("consumed");
  // The timer does not keep the process alive: it ends with its server.
  await second.stop();
});
