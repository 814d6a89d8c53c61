import { deltaChannelHistoryTests, validate } from "@langchain/langgraph-checkpoint-validation";
import { memory } from "holdfast/checkpointers/memory";

const initializer = { checkpointerName: "holdfast memory", createCheckpointer: async () => memory() };
validate(initializer);
deltaChannelHistoryTests(initializer);
