import fc from "fast-check";
import { expect, test } from "vitest";
import { compareIds } from "../../checkpointers/ids.ts";
import {
  packDigest,
  packId,
  packToken,
  unpackDigest,
  unpackId,
  unpackToken,
  uuidBound,
} from "../../checkpointers/sqlite/ids.ts";

const wellFormed = fc.string({ unit: fc.constantFrom("a", "A", "0", "-", "_", "\0", "~", "é", "\uffff", "😀", " ") });
/** Text that looks like a UUID up to some place. */
const nearlyUuid = fc.tuple(fc.uuid(), fc.nat(40), wellFormed).map(([uuid, at, rest]) => uuid.slice(0, at) + rest);
const anyId = fc.oneof(
  fc.uuid(),
  fc.uuid().map((uuid) => uuid.toUpperCase()),
  wellFormed,
  nearlyUuid,
);

test("every id comes back from its packed form, and only canonical UUIDs take 16 bytes", () => {
  fc.assert(
    fc.property(anyId, (id) => {
      const packed = packId(id);
      expect(unpackId(packed)).toBe(id);
      expect(typeof packed === "string" ? packed : packed.length).toBe(
        /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(id) ? 16 : id,
      );
    }),
    { numRuns: 2000 },
  );
});

test("digests and tokens come back from their packed form", () => {
  const digest = fc.oneof(fc.stringMatching(/^[0-9a-f]{64}$/), fc.stringMatching(/^[0-9A-F]{64}$/), wellFormed);
  const token = fc.oneof(fc.stringMatching(/^[A-Za-z0-9_-]{0,40}$/), wellFormed);
  fc.assert(fc.property(digest, (text) => unpackDigest(packDigest(text)) === text));
  fc.assert(fc.property(token, (text) => unpackToken(packToken(text)) === text));
});

test("ids are compared by code point, as UTF-8 bytes are", () => {
  fc.assert(
    fc.property(anyId, anyId, (a, b) => {
      expect(Math.sign(compareIds(a, b))).toBe(Buffer.compare(Buffer.from(a), Buffer.from(b)));
    }),
    { numRuns: 2000 },
  );
});

test("a packed UUID is below the bound of a text exactly where it sorts before the text", () => {
  const pair = fc.oneof(
    fc.tuple(fc.uuid(), anyId),
    // The same beginning, so that the difference lies at any place.
    fc.tuple(fc.uuid(), fc.nat(36), wellFormed).map(([uuid, at, rest]) => [uuid, uuid.slice(0, at) + rest] as const),
  );
  fc.assert(
    fc.property(pair, ([uuid, text]) => {
      const below = Buffer.compare(packId(uuid) as Buffer, uuidBound(text)) < 0;
      expect(below).toBe(compareIds(uuid, text) < 0);
    }),
    { numRuns: 5000 },
  );
});

test("an id with half a surrogate pair is refused, because two of them would have the same UTF-8", () => {
  expect(() => packId("a\ud800")).toThrow("INVALID_ID");
});
