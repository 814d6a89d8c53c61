/** Byte arrays: Buffer, all typed arrays, DataView, ArrayBuffer. Numbers are stored in little-endian order. */

import { damaged } from "./tree.ts";

type View = { new (buffer: ArrayBuffer): ArrayBufferView; prototype: object };

const views: Record<string, View> = {
  Uint8Array,
  Uint8ClampedArray,
  Int8Array,
  Uint16Array,
  Int16Array,
  Uint32Array,
  Int32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
  DataView,
};

const forms = new Map<object, string>([
  ...Object.entries(views).map(([form, view]): [object, string] => [view.prototype, form]),
  [Buffer.prototype, "Buffer"],
  [ArrayBuffer.prototype, "ArrayBuffer"],
]);

/** The stored name of a byte array's class by its prototype; undefined for anything else, subclasses included. */
export function bytesForm(proto: object): string | undefined {
  return forms.get(proto);
}

/** The bytes a value shows, without copying them. */
export function bytesView(value: object): Uint8Array {
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  return new Uint8Array(value as ArrayBuffer);
}

/** A new value of the named class with a copy of `data`. */
export function bytesFrom(form: unknown, data: Uint8Array): object {
  // A new ArrayBuffer of exactly this size: a pooled Buffer would show its neighbours through `.buffer`.
  const buffer = new ArrayBuffer(data.byteLength);
  new Uint8Array(buffer).set(data);
  if (form === "Buffer") return Buffer.from(buffer);
  if (form === "ArrayBuffer") return buffer;
  const view = typeof form === "string" && Object.hasOwn(views, form) ? views[form] : undefined;
  if (view === undefined) throw damaged(`bytes of an unknown class ${JSON.stringify(form)}`);
  return new view(buffer);
}
