// Lines as values: count them, find one at any depth, change it, and compare two by their choices.

import { CartError, checkList, pointerTo, refuseAt } from "./faults.js";
import type { Origin, Path } from "./faults.js";
import type { CartModifierGroup, LineItem, PricedLineItem } from "./types.js";

const MAX_LINES = 200; // Lines of a cart, modifiers included.
const MAX_DEPTH = 8; // Levels of modifiers.

/** Throw for too many lines or levels, or a missing list, before anything else is done with them. */
export function checkBounds(lines: readonly LineItem[], origin: Origin = {}): void {
  let count = 0;
  const visit = (below: readonly LineItem[], above: Path): void => {
    below.forEach((line, index) => {
      const path = [...above, index];
      count += 1;
      if (path.length > 2 * MAX_DEPTH + 1) {
        refuseAt(pointerTo(path, "", origin), `Modifiers may be nested at most ${MAX_DEPTH} deep.`);
      }
      if (count > MAX_LINES) {
        const at = path[0] === origin.item ? path.slice(0, 1) : [];
        refuseAt(pointerTo(at, "", origin), `A cart may have at most ${MAX_LINES} lines, modifiers included.`);
      }
      checkList(line.modifierGroups, pointerTo(path, "/modifierGroups", origin));
      line.modifierGroups.forEach((group, number) => {
        const at = [...path, number];
        checkList(group.lineItems, pointerTo(at, "/lineItems", origin));
        visit(group.lineItems, at);
      });
    });
  };
  visit(lines, []);
}

/** The path of the first line with this id, in the cart's order. */
export function pathOf(lines: readonly LineItem[], lineItemId: string): Path {
  const wanted = lineItemId.toLowerCase();
  const path = findPath(lines, wanted);
  if (path !== undefined) return path;
  throw new CartError(
    "LINE_ITEM_NOT_FOUND",
    404,
    `The cart has no line item ${wanted}. Read its ids from the cart.`,
    [],
  );
}

function findPath(lines: readonly LineItem[], lineItemId: string): Path | undefined {
  for (const [index, line] of lines.entries()) {
    if (line.lineItemId?.toLowerCase() === lineItemId) return [index];
    for (const [number, group] of line.modifierGroups.entries()) {
      const below = findPath(group.lineItems, lineItemId);
      if (below !== undefined) return [index, number, ...below];
    }
  }
  return undefined;
}

/** The lines with another quantity at the path; 0 removes the line, and a group that has no choices left. */
export function withQuantity(lines: readonly LineItem[], path: Path, quantity: number): LineItem[] {
  const [index, number, ...below] = path as [number, number?, ...number[]];
  const line = lines[index] as LineItem;
  const changed = [...lines];
  if (number === undefined) {
    changed.splice(index, 1, ...(quantity === 0 ? [] : [{ ...line, quantity }]));
    return changed;
  }
  const group = line.modifierGroups[number] as CartModifierGroup;
  const left = withQuantity(group.lineItems, below, quantity);
  const modifierGroups = [...line.modifierGroups];
  modifierGroups.splice(number, 1, ...(left.length === 0 ? [] : [{ ...group, lineItems: left }]));
  changed[index] = { ...line, modifierGroups };
  return changed;
}

/** The index of the line with the same item, the same note and the same modifiers, in any order. */
export function findSame(lines: readonly LineItem[], item: LineItem): number | undefined {
  const wanted = choiceOf(item);
  const index = lines.findIndex((line) => choiceOf(line) === wanted);
  return index < 0 ? undefined : index;
}

/** A text that is equal for lines of the same item and note with the same modifiers in any order. */
function choiceOf(line: LineItem): string {
  const units = new Map<string, number>();
  for (const group of line.modifierGroups) {
    for (const below of group.lineItems) {
      const key = `${group.modifierGroupId.toLowerCase()} ${choiceOf(below)}`;
      units.set(key, (units.get(key) ?? 0) + below.quantity);
    }
  }
  const chosen = [...units].map(([key, count]) => `${count} ${key}`).sort();
  return JSON.stringify([line.itemId.toLowerCase(), line.note || null, chosen]);
}

/** Whether the line has a group without choices, at any depth. */
export function hasEmptyGroup(line: LineItem): boolean {
  return line.modifierGroups.some((group) => group.lineItems.length === 0 || group.lineItems.some(hasEmptyGroup));
}

/** Give a new id to every line that has the id of an earlier one. */
export function replaceDuplicateIds(lines: PricedLineItem[], seen: Set<string>, newId: () => string): void {
  for (const line of lines) {
    while (seen.has(line.lineItemId)) line.lineItemId = newId();
    seen.add(line.lineItemId);
    for (const group of line.modifierGroups) replaceDuplicateIds(group.lineItems, seen, newId);
  }
}
