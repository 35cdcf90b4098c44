// Faults and where they are. A path leads to a line: its index, then (group, index) for each level below.

import type { OrderError } from "./types.js";

export const MAX_FAULTS = 100; // Faults listed in one answer.

export const UNAVAILABLE = "ITEM_UNAVAILABLE";
export const REQUIRED = "MODIFIER_REQUIRED";
export const EXCEEDED = "MODIFIER_LIMIT_EXCEEDED";
export const INVALID = "VALIDATION_FAILED";
const MALFORMED = "INVALID_REQUEST";

export type Path = readonly number[];

export interface CartFault {
  readonly code: string;
  readonly message: string;
  readonly path: Path;
  readonly member?: string;
  readonly itemId?: string;
  readonly groupId?: string;
  readonly minimum?: number;
  readonly maximum?: number;
}

/** The location of a changed cart's lines in the request: which line is its `item`, and so on. */
export interface Origin {
  readonly item?: number;
  readonly removed?: number;
  readonly quantity?: readonly [index: number, pointer: string];
}

/** A refusal, with the service's code and status for it, and every fault. */
export class CartError extends Error {
  override readonly name = "CartError";

  constructor(
    readonly code: string,
    readonly status: number,
    message: string,
    readonly errors: readonly OrderError[],
  ) {
    super(message);
  }
}

export function pointerTo(path: Path, member: string, origin: Origin): string {
  const [first, ...below] = path;
  if (first === undefined) return "/cart/lineItems";
  if (member === "/quantity" && below.length === 0 && origin.quantity?.[0] === first) return origin.quantity[1];
  const index = origin.removed !== undefined && first >= origin.removed ? first + 1 : first;
  const root = first === origin.item ? "/item" : `/cart/lineItems/${index}`;
  const steps = below.map((step, depth) => `/${depth % 2 === 0 ? "modifierGroups" : "lineItems"}/${step}`);
  return root + steps.join("") + member;
}

export function errorOf(fault: CartFault, origin: Origin = {}): OrderError {
  const { code, message, path, member = "", itemId, groupId, minimum, maximum } = fault;
  return {
    code,
    message,
    pointer: pointerTo(path, member, origin),
    ...(itemId === undefined ? {} : { itemId }),
    ...(groupId === undefined ? {} : { modifierGroupId: groupId }),
    ...(minimum === undefined ? {} : { minimum }),
    ...(maximum === undefined ? {} : { maximum }),
  };
}

/** Throw for what should be a list and isn't, as the service refuses a body of another shape. */
export function checkList(value: unknown, pointer: string): void {
  if (Array.isArray(value)) return;
  const name = pointer.slice(pointer.lastIndexOf("/") + 1);
  const kind = value === null || typeof value === "boolean" ? `${value}` : typeof value === "object" ? "an object" : `a ${typeof value}`;
  const message = value === undefined ? `${name} is required.` : `${name} must be a list, not ${kind}.`;
  throw new CartError(MALFORMED, 400, message, [{ code: MALFORMED, message, pointer }]);
}

/** Throw for a single value. */
export function refuseAt(pointer: string, message: string): never {
  throw new CartError(INVALID, 422, message, [{ code: INVALID, message, pointer }]);
}

/** Throw the refusal that lists the faults, if any: 400 if something is unavailable, else 422. */
export function refuse(faults: readonly OrderError[]): void {
  const [first] = faults;
  if (first === undefined) return;
  const count = faults.length < MAX_FAULTS ? `${faults.length}` : `${MAX_FAULTS} or more`;
  const detail = faults.length === 1 ? first.message : `${count} faults in the cart: see errors.`;
  const unavailable = faults.find((fault) => fault.code === UNAVAILABLE);
  const listed = faults.slice(0, MAX_FAULTS);
  if (unavailable === undefined) throw new CartError(INVALID, 422, detail, listed);
  // The fault that determines the status must be listed.
  if (!listed.includes(unavailable)) listed[listed.length - 1] = unavailable;
  throw new CartError(UNAVAILABLE, 400, detail, listed);
}
