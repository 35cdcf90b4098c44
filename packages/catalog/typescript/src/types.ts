// What a storefront has: the CatalogSet and the cart, as the service's answers have them.

/** A CatalogSet as `GET /v1/marketfront/catalog-sets/{catalogSetId}` returns it. Only what prices depend on. */
export interface CatalogSet {
  readonly catalogSetId: string;
  readonly storeId: string;
  /** ISO 4217; absent where the network's default applies (`CatalogOptions.currency`). */
  readonly currency?: string | null;
  readonly items: Readonly<Record<string, Item>>;
  readonly modifierGroups?: Readonly<Record<string, ModifierGroup>> | null;
}

export interface Item {
  readonly name?: string | null;
  /** A decimal string; without one the item isn't sold by itself, and is free as a modifier. */
  readonly basePrice?: string | null;
  readonly modifierGroupIds?: readonly string[] | null;
  readonly isAvailable?: boolean | null;
  readonly maximumQuantity?: number | null;
}

export interface ModifierGroup {
  readonly name?: string | null;
  readonly itemIds?: readonly string[] | null;
  readonly minimumAllowed?: number | null;
  readonly maximumAllowed?: number | null;
  readonly maximumPerItem?: number | null;
  readonly freeQuantity?: number | null;
  readonly priceOverrides?: Readonly<Record<string, string>> | null;
}

export interface LineItem {
  readonly itemId: string;
  readonly quantity: number;
  readonly modifierGroups: readonly CartModifierGroup[];
  readonly lineItemId?: string | null;
  readonly note?: string | null;
}

export interface CartModifierGroup {
  readonly modifierGroupId: string;
  readonly lineItems: readonly LineItem[];
}

/** A cart, of an earlier answer or of your own. Amounts are ignored. */
export interface Cart {
  readonly storeId: string;
  readonly catalogSetId: string;
  readonly lineItems: readonly LineItem[];
}

export interface PricedLineItem {
  itemId: string;
  modifierGroups: PricedModifierGroup[];
  quantity: number;
  lineItemId: string;
  /** Of top-level lines without anything unavailable. Decimal strings. */
  amounts?: { unitPrice: string; total: string };
  unavailable?: true;
  note: string | null;
}

export interface PricedModifierGroup {
  modifierGroupId: string;
  lineItems: PricedLineItem[];
}

/** A cart as the service's cart helpers answer it: it can be sent to them, to Validate and to Place. */
export interface PricedCart {
  catalogSetId: string;
  storeId: string;
  lineItems: PricedLineItem[];
  /** Absent if something in the cart has no price. */
  amounts?: { currency: string; subTotal: string; total: string };
  /** What prevents an order with this cart. */
  errors: OrderError[];
}

/** One fault of a cart; `pointer` (RFC 6901) is into the request that the service would have got. */
export interface OrderError {
  code: string;
  message: string;
  pointer: string | null;
  itemId?: string;
  modifierGroupId?: string;
  minimum?: number;
  maximum?: number;
}
