/** Death at every point between the request to approve and the end of the thread. */

import { expect, test } from "vitest";
import { killedAt, pointsOf, template } from "./sites.ts";

test("killed at any point between the answer and the end, another process finishes the thread with one effect", async () => {
  const file = await template();
  const points = await pointsOf(file);
  // The decision, the hold, intent and outcome of the effect, and the results of both nodes.
  expect(points.length).toBeGreaterThan(12);
  expect(points).toContain("effect:send:1:inside");
  for (const point of points) await killedAt(point, file);
});
