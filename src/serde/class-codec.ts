/**
 * How one class of value becomes the parts of a tag and comes back. The parts may hold any value; the walkers
 * (`encoder.ts`, `decoder.ts`, `comparison.ts`, `graph.ts`) take care of what is inside them.
 */
export interface ClassCodec<T extends object = object> {
  readonly tag: string;
  /**
   * Everything that is kept of `value`, in a fixed order. Called to store and to compare, so it must be a pure
   * function of the value.
   */
  parts(value: T): unknown[];
  /**
   * A new value from its revived parts. A codec with `fill` gets the leading parts that are primitives, and
   * must use no others: the rest may not exist yet in a cyclic value.
   */
  create(parts: readonly unknown[]): T;
  /** Puts the contents into a value made by `create`. */
  fill?(value: T, parts: readonly unknown[]): void;
  /** The place of part `index` inside the value, for error messages: `.get("a")`. */
  place?(parts: readonly unknown[], index: number): string;
}
