/** The rows of `loss.test.ts` with other settings: a kill takes the same, whatever a power cut would take. */

import { testRow } from "./loss/kill.ts";

testRow("sqlite NORMAL");
testRow("sqlite OFF");
testRow("jsonl no fsync");
