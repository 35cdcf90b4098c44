// Price a cart by one CatalogSet, and find all its faults. Amounts are integers of minor units.
//
// The price of a unit is the item's own price and the prices of its modifiers, at every depth. A group's free units are
// its cheapest by the choices' own prices; modifiers of a free choice aren't free.

import { EXCEEDED, INVALID, MAX_FAULTS, REQUIRED, UNAVAILABLE } from "./faults.js";
import type { CartFault, Path } from "./faults.js";
import { replaceDuplicateIds } from "./lines.js";
import { MAX_MINOR, MIN_MINOR, toMinor, toText } from "./money.js";
import type { CartModifierGroup, CatalogSet, LineItem, PricedCart, PricedLineItem, PricedModifierGroup } from "./types.js";

const MAX_NAME = 256; // Characters of a name that messages repeat.

interface CompiledItem {
  readonly name: string;
  readonly price: bigint | undefined;
  readonly groups: readonly string[];
  readonly available: boolean;
  readonly maximumQuantity: number | undefined;
}

interface CompiledGroup {
  readonly name: string;
  readonly minimum: number;
  readonly maximum: number | undefined;
  readonly maximumPerItem: number | undefined;
  readonly free: number;
  /** Item to the price of one unit here. */
  readonly choices: ReadonlyMap<string, bigint>;
}

/** A CatalogSet as pricing reads it. Maps, so that an id such as `constructor` is only an unknown id. */
export interface Compiled {
  readonly currency: string;
  readonly scale: number;
  readonly items: ReadonlyMap<string, CompiledItem>;
  readonly groups: ReadonlyMap<string, CompiledGroup>;
}

export function compile(set: CatalogSet, currency: string, scale: number): Compiled {
  const items = new Map<string, CompiledItem>();
  for (const [id, item] of Object.entries(set.items)) {
    items.set(id, {
      name: shortened(item.name),
      price: item.basePrice == null ? undefined : toMinor(item.basePrice, scale),
      groups: item.modifierGroupIds ?? [],
      available: item.isAvailable !== false,
      maximumQuantity: item.maximumQuantity ?? undefined,
    });
  }
  const groups = new Map<string, CompiledGroup>();
  for (const [id, group] of Object.entries(set.modifierGroups ?? {})) {
    const own = new Map(Object.entries(group.priceOverrides ?? {}));
    const choices = new Map<string, bigint>();
    for (const item of group.itemIds ?? []) {
      const override = own.get(item);
      choices.set(item, override == null ? (items.get(item)?.price ?? 0n) : toMinor(override, scale));
    }
    groups.set(id, {
      name: shortened(group.name),
      minimum: group.minimumAllowed ?? 0,
      maximum: group.maximumAllowed ?? undefined,
      maximumPerItem: group.maximumPerItem ?? undefined,
      free: group.freeQuantity ?? 0,
      choices,
    });
  }
  return { currency, scale, items, groups };
}

function shortened(name: string | null | undefined): string {
  return name == null ? "" : name.length <= MAX_NAME ? name : Array.from(name).slice(0, MAX_NAME).join("");
}

/** Lines with prices and ids, and what is wrong with them. `overflows` are amounts beyond 64 bits. */
export interface Priced {
  readonly lines: PricedLineItem[];
  readonly amounts: PricedCart["amounts"];
  readonly faults: readonly CartFault[];
  readonly overflows: readonly CartFault[];
}

/** Price the lines, which must be within bounds, and find their faults, without throwing. */
export function price(
  lines: readonly LineItem[],
  catalog: Compiled,
  soldOut: Iterable<string>,
  newId: () => string,
): Priced {
  return new Pricing(catalog, soldOut, newId).price(lines);
}

type Part = readonly [number: number, part: CartModifierGroup, answered: PricedModifierGroup];

class Pricing {
  private readonly soldOut: ReadonlySet<string>;
  private readonly faults: CartFault[] = [];
  private readonly overflows: CartFault[] = [];
  private readonly ids: string[] = [];

  constructor(
    private readonly catalog: Compiled,
    soldOut: Iterable<string>,
    private readonly newId: () => string,
  ) {
    this.soldOut = new Set(Array.from(soldOut, (id) => id.toLowerCase()));
  }

  price(lines: readonly LineItem[]): Priced {
    const { catalog } = this;
    const priced: PricedLineItem[] = [];
    let total: bigint | undefined = 0n;
    let summed = 0n; // Also of a cart in which something has no price.
    for (const [index, line] of lines.entries()) {
      const itemId = line.itemId.toLowerCase();
      const item = catalog.items.get(itemId);
      if (item === undefined) {
        this.note(UNAVAILABLE, `Item ${itemId} is not in the store's current CatalogSet.`, [index], { itemId });
        priced.push(this.unpriced(line, true, false));
        total = undefined;
        continue;
      }
      const [answered, unit] = this.line(line, item, item.price, [index]);
      priced.push(answered);
      if (unit === undefined) {
        total = undefined;
        continue;
      }
      const cost = unit * BigInt(line.quantity);
      summed += cost;
      if (isBeyond(cost)) this.overflow([index]);
    }
    this.checkQuantities(lines);
    if (isBeyond(summed) && this.overflows.length === 0) this.overflow([]);
    if (new Set(this.ids).size !== this.ids.length) replaceDuplicateIds(priced, new Set(), this.newId);
    const text = total === undefined ? undefined : toText(summed, catalog.scale);
    const amounts = text === undefined ? undefined : { currency: catalog.currency, subTotal: text, total: text };
    return { lines: priced, amounts, faults: this.faults, overflows: this.overflows };
  }

  /** The priced line, and the price of a unit if it has one. `own` is the item's own price in this place. */
  private line(line: LineItem, item: CompiledItem, own: bigint | undefined, path: Path): [PricedLineItem, bigint | undefined] {
    const itemId = line.itemId.toLowerCase();
    const answered = this.answered(line);
    const name = item.name || itemId;
    const isOut = !item.available || this.soldOut.has(itemId);
    if (isOut) this.note(UNAVAILABLE, `${name} is sold out.`, path, { itemId });
    let unit = isOut ? undefined : own;
    if (line.modifierGroups.length > 0 || item.groups.length > 0) {
      const extra = this.modifiers(line, item, answered.modifierGroups, path);
      unit = unit === undefined || extra === undefined ? undefined : unit + extra;
    }
    if (own === undefined && !isOut) this.note(UNAVAILABLE, `${name} is not sold by itself.`, path, { itemId });
    if (unit === undefined) answered.unavailable = true;
    else if (path.length === 1) {
      const { scale } = this.catalog;
      answered.amounts = {
        unitPrice: toText(unit, scale),
        total: toText(unit * BigInt(line.quantity), scale),
      };
    }
    return [answered, unit];
  }

  /** Note every item with more units in all top-level lines than its maximum. */
  private checkQuantities(lines: readonly LineItem[]): void {
    const units = new Map<string, number>();
    for (const [index, line] of lines.entries()) {
      const itemId = line.itemId.toLowerCase();
      const item = this.catalog.items.get(itemId);
      const maximum = item?.maximumQuantity;
      if (item === undefined || maximum === undefined) continue;
      const count = (units.get(itemId) ?? 0) + line.quantity;
      units.set(itemId, count);
      if (count > maximum) {
        const message = `At most ${maximum} of ${item.name || itemId} can be bought.`;
        this.note(INVALID, message, [index], { member: "/quantity", itemId, maximum });
      }
    }
  }

  /** The price of one unit's modifiers, if it has one. Several entries for the same group count as one. */
  private modifiers(line: LineItem, item: CompiledItem, answered: PricedModifierGroup[], path: Path): bigint | undefined {
    const chosen = new Map<string, Part[]>();
    for (const [number, part] of line.modifierGroups.entries()) {
      const modifierGroupId = part.modifierGroupId.toLowerCase();
      const group: PricedModifierGroup = { modifierGroupId, lineItems: [] };
      answered.push(group);
      const parts = chosen.get(modifierGroupId);
      if (parts === undefined) chosen.set(modifierGroupId, [[number, part, group]]);
      else parts.push([number, part, group]);
    }
    const itemId = line.itemId.toLowerCase();
    let total: bigint | undefined = 0n;
    for (const [groupId, parts] of chosen) {
      const group = item.groups.includes(groupId) ? this.catalog.groups.get(groupId) : undefined;
      const extra =
        group === undefined ? this.unknownGroup(item, groupId, parts, path, itemId) : this.group(group, groupId, parts, path, itemId);
      total = total === undefined || extra === undefined ? undefined : total + extra;
    }
    for (const groupId of new Set(item.groups)) {
      const group = this.catalog.groups.get(groupId);
      if (group !== undefined && !chosen.has(groupId) && group.minimum > 0) {
        this.checkRules(group, 0, new Map(), path, { member: "/modifierGroups", itemId, groupId });
      }
    }
    return total;
  }

  /** The price of a group's choices, if all have one, without its free units: the cheapest by their own prices. */
  private group(group: CompiledGroup, groupId: string, parts: readonly Part[], path: Path, itemId: string): bigint | undefined {
    let total: bigint | undefined = 0n;
    let units = 0;
    const limited = new Map<string, number>();
    const choices: { own: bigint; quantity: number }[] = [];
    for (const [number, part, answered] of parts) {
      for (const [index, choice] of part.lineItems.entries()) {
        const id = choice.itemId.toLowerCase();
        const own = group.choices.get(id);
        const item = this.catalog.items.get(id);
        let unit: bigint | undefined;
        units += choice.quantity;
        if (own === undefined || item === undefined) {
          // Its units count: the choice is reported once, as unavailable.
          const message = `${group.name || "The group"} has no choice ${id} in the current CatalogSet.`;
          this.note(UNAVAILABLE, message, [...path, number, index], { itemId: id, groupId });
          answered.lineItems.push(this.unpriced(choice, true, false));
        } else {
          const [line, price] = this.line(choice, item, own, [...path, number, index]);
          answered.lineItems.push(line);
          unit = price;
        }
        total = total === undefined || unit === undefined ? undefined : total + unit * BigInt(choice.quantity);
        if (own !== undefined && unit !== undefined) choices.push({ own, quantity: choice.quantity });
        if (group.maximumPerItem !== undefined || item?.maximumQuantity !== undefined) {
          limited.set(id, (limited.get(id) ?? 0) + choice.quantity);
        }
      }
    }
    const [[number]] = parts as readonly [Part, ...Part[]];
    this.checkRules(group, units, limited, [...path, number], { itemId, groupId });
    if (total === undefined) return undefined;
    let free = group.free;
    for (const { own, quantity } of choices.sort((one, other) => (one.own < other.own ? -1 : one.own > other.own ? 1 : 0))) {
      const count = Math.min(free, quantity);
      free -= count;
      total -= own * BigInt(count);
    }
    return total;
  }

  /** Note at most one fault of a group: too few or too many units, of the group or of a choice. */
  private checkRules(
    group: CompiledGroup,
    units: number,
    limited: ReadonlyMap<string, number>,
    path: Path,
    place: { member?: string; itemId: string; groupId: string },
  ): void {
    const name = group.name || "The group";
    const { minimum, maximum } = group;
    if (units < minimum) {
      this.note(REQUIRED, `${name}: choose at least ${minimum}, not ${units}.`, path, { ...place, minimum });
    } else if (maximum !== undefined && units > maximum) {
      this.note(EXCEEDED, `${name}: choose at most ${maximum}, not ${units}.`, path, { ...place, maximum });
    } else {
      for (const [itemId, count] of limited) {
        const own = this.catalog.items.get(itemId)?.maximumQuantity;
        const most = Math.min(group.maximumPerItem ?? Infinity, own ?? Infinity);
        if (count > most) {
          const message = `${name}: choose at most ${most} of one choice, not ${count}.`;
          this.note(EXCEEDED, message, path, { ...place, itemId, maximum: most });
          return;
        }
      }
    }
  }

  private unknownGroup(item: CompiledItem, groupId: string, parts: readonly Part[], path: Path, itemId: string): undefined {
    const [[number]] = parts as readonly [Part, ...Part[]];
    const message = `${item.name || "The item"} has no modifier group ${groupId} in the current CatalogSet.`;
    this.note(UNAVAILABLE, message, [...path, number], { itemId, groupId });
    for (const [, part, answered] of parts) {
      for (const line of part.lineItems) answered.lineItems.push(this.unpriced(line, true, true));
    }
    return undefined;
  }

  /** A line without a price; `below`: its modifiers are unavailable, too. */
  private unpriced(line: LineItem, unavailable: boolean, below: boolean): PricedLineItem {
    const answered = this.answered(line);
    for (const group of line.modifierGroups) {
      const lineItems = group.lineItems.map((choice) => this.unpriced(choice, below, below));
      answered.modifierGroups.push({ modifierGroupId: group.modifierGroupId.toLowerCase(), lineItems });
    }
    if (unavailable) answered.unavailable = true;
    return answered;
  }

  private answered(line: LineItem): PricedLineItem {
    const lineItemId = line.lineItemId?.toLowerCase() ?? this.newId();
    this.ids.push(lineItemId);
    const { quantity } = line;
    return { itemId: line.itemId.toLowerCase(), modifierGroups: [], quantity, lineItemId, note: line.note || null };
  }

  private overflow(path: Path): void {
    this.overflows.push({ code: INVALID, message: "The amount is out of range.", path });
  }

  private note(code: string, message: string, path: Path, facts: Omit<CartFault, "code" | "message" | "path">): void {
    const fault = { code, message, path, ...facts };
    if (this.faults.length < MAX_FAULTS) this.faults.push(fault);
    else if (code === UNAVAILABLE && this.faults.at(-1)?.code !== UNAVAILABLE) {
      // What is unavailable determines the status, so that some of it is among the faults that are reported.
      this.faults[MAX_FAULTS - 1] = fault;
    }
  }
}

function isBeyond(amount: bigint): boolean {
  return amount < MIN_MINOR || amount > MAX_MINOR;
}
