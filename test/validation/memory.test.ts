import { memory } from "holdfast/checkpointers/memory";
import { publicSuite } from "./public-suite.ts";

publicSuite("memory", async () => memory());
