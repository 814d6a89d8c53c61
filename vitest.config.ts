import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string) => fileURLToPath(new URL(path, import.meta.url));

export default defineConfig({
  resolve: {
    alias: [
      { find: /^holdfast$/, replacement: here("./src/index.ts") },
      { find: /^holdfast\/checkpointers$/, replacement: here("./checkpointers/open.ts") },
      {
        find: /^holdfast\/checkpointers\/(memory|jsonl|sqlite|postgres|redis)$/,
        replacement: here("./checkpointers/$1/index.ts"),
      },
      { find: /^holdfast\/approvals$/, replacement: here("./src/approvals/index.ts") },
      { find: /^holdfast\/runs$/, replacement: here("./src/runs/index.ts") },
      { find: /^holdfast\/runs\/pg-boss$/, replacement: here("./src/runs/pg-boss.ts") },
      { find: /^holdfast\/testing$/, replacement: here("./src/testing/index.ts") },
      { find: /^holdfast\/testing\/kill$/, replacement: here("./src/testing/kill.ts") },
      { find: /^holdfast\/graphs$/, replacement: here("./graphs/index.ts") },
    ],
  },
  test: {
    globals: true,
    globalSetup: "test/servers/global-setup.ts",
    include: ["test/**/*.test.ts"],
    exclude: ["test/**/*.long.test.ts"],
    // Many tests wait for processes of their own: a core less, as is the default, would leave half of a small machine idle.
    maxWorkers: "100%",
    testTimeout: 60_000,
    hookTimeout: 60_000,
  },
});
