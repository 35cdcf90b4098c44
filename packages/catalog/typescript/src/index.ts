// The rules of carts, on the device: what the service's cart helpers answer, without a request.

import { CartError, INVALID, errorOf, refuse } from "./faults.js";
import type { Origin } from "./faults.js";
import { checkBounds, findSame, hasEmptyGroup, pathOf, withQuantity } from "./lines.js";
import { scaleOf } from "./money.js";
import { compile, price } from "./pricing.js";
import type { Compiled, Priced } from "./pricing.js";
import type { Cart, CatalogSet, LineItem, OrderError, PricedCart } from "./types.js";

export { CartError } from "./faults.js";
export type * from "./types.js";

const MAX_QUANTITY = 2 ** 31 - 1;

export interface CatalogOptions {
  /** The network's default currency, for a CatalogSet without one. USD if absent. */
  readonly currency?: string;
  /** Ids of items that are sold out now: `unavailableItemIds` of the store. */
  readonly soldOut?: Iterable<string>;
  /** Makes the ids of lines; random UUIDs if absent. */
  readonly newId?: () => string;
}

/**
 * A store's menu, with the functions of the cart helpers. None changes its arguments.
 *
 * Refusals are `CartError`s, with the code, the status and the faults that the service would answer. What is shown is
 * only for the eye: prices and stock can change, so let the service validate an order before it is placed.
 */
export class Catalog {
  private readonly compiled: Compiled;
  private readonly soldOut: readonly string[];
  private readonly newId: () => string;

  constructor(
    private readonly set: CatalogSet,
    options: CatalogOptions = {},
  ) {
    const currency = set.currency ?? options.currency ?? "USD";
    this.compiled = compile(set, currency, scaleOf(currency));
    this.soldOut = [...(options.soldOut ?? [])];
    this.newId = options.newId ?? (() => crypto.randomUUID());
  }

  /** The cart with the item added: to the line with the same choices and note, or as a new line. */
  add(cart: Cart | null, item: LineItem): PricedCart {
    const lines = [...this.linesOf(cart)];
    checkQuantity(item.quantity, 1, "/item/quantity");
    checkBounds(lines);
    checkBounds([item], { item: 0 });
    const same = findSame(lines, item);
    if (same !== undefined) return this.merge(lines, same, item);
    const origin = { item: lines.length };
    lines.push(item);
    checkBounds(lines, origin);
    return this.accept(this.priced(lines), origin);
  }

  /** The cart without the line. Faults of the rest are listed in it rather than thrown. */
  remove(cart: Cart, lineItemId: string): PricedCart {
    const lines = this.linesOf(cart);
    checkBounds(lines);
    const path = pathOf(lines, lineItemId);
    const priced = this.priced(withQuantity(lines, path, 0));
    const [first = 0] = path;
    refuse(priced.overflows.map((fault) => errorOf(fault, path.length === 1 ? { removed: first } : {})));
    return this.answer(priced);
  }

  /** The cart with another quantity of the line; 0 removes it. */
  update(cart: Cart, lineItemId: string, quantity: number): PricedCart {
    checkQuantity(quantity, 0, "/quantity");
    if (quantity === 0) return this.remove(cart, lineItemId);
    const lines = this.linesOf(cart);
    checkBounds(lines);
    const path = pathOf(lines, lineItemId);
    const [first = 0] = path;
    const origin: Origin = path.length === 1 ? { quantity: [first, "/quantity"] } : {};
    return this.accept(this.priced(withQuantity(lines, path, quantity)), origin);
  }

  /** The cart priced, with everything that prevents an order listed in its `errors`. */
  price(cart: Cart): PricedCart {
    const lines = this.linesOf(cart);
    checkBounds(lines);
    const priced = this.priced(lines);
    return this.answer(priced, priced.overflows);
  }

  /** The lines of a cart of this store. Those of an earlier CatalogSet are priced by this one. */
  private linesOf(cart: Cart | null): readonly LineItem[] {
    if (cart !== null && cart.lineItems.length > 0 && cart.storeId.toLowerCase() !== this.set.storeId) {
      throw new RangeError(`The cart is of the store ${cart.storeId}, the catalog of ${this.set.storeId}.`);
    }
    return cart?.lineItems ?? [];
  }

  private priced(lines: readonly LineItem[]): Priced {
    return price(lines, this.compiled, this.soldOut, this.newId);
  }

  private merge(lines: LineItem[], index: number, item: LineItem): PricedCart {
    const line = lines[index] as LineItem;
    const added: OrderError[] = [];
    const quantity = line.quantity + item.quantity;
    if (quantity > MAX_QUANTITY) {
      const message = `quantity together with the cart's may be at most ${MAX_QUANTITY}.`;
      added.push({ code: INVALID, message, pointer: "/item/quantity", maximum: MAX_QUANTITY });
    } else {
      lines[index] = { ...line, quantity };
    }
    const priced = this.priced(lines);
    if (priced.faults.length > 0 || hasEmptyGroup(item)) {
      // What is wrong with the line is wrong with the item, too.
      added.push(...this.priced([item]).faults.map((fault) => errorOf(fault, { item: 0 })));
    }
    return this.accept(priced, { quantity: [index, "/item/quantity"] }, added);
  }

  /** The cart, or all its faults thrown; `added` are those of a merged item. */
  private accept(priced: Priced, origin: Origin, added: readonly OrderError[] = []): PricedCart {
    const faults = [...priced.faults, ...priced.overflows].map((fault) => errorOf(fault, origin));
    const known = new Set(faults.map((fault) => JSON.stringify(fault)));
    refuse([...faults, ...added.filter((fault) => !known.has(JSON.stringify(fault)))]);
    return this.answer(priced);
  }

  private answer(priced: Priced, overflows: Priced["overflows"] = []): PricedCart {
    const { catalogSetId, storeId } = this.set;
    return {
      catalogSetId,
      storeId,
      lineItems: priced.lines,
      ...(priced.amounts === undefined ? {} : { amounts: priced.amounts }),
      errors: [...priced.faults, ...overflows].map((fault) => errorOf(fault)),
    };
  }
}

function checkQuantity(quantity: number, minimum: number, pointer: string): void {
  if (Number.isInteger(quantity) && quantity >= minimum && quantity <= MAX_QUANTITY) return;
  const message = `quantity must be a whole number from ${minimum} to ${MAX_QUANTITY}.`;
  throw new CartError(INVALID, 422, message, [{ code: INVALID, message, pointer }]);
}
