// The Marketfront surface, for storefronts.

import type * as types from "./api.js";
import { ConfigurationError } from "./errors.js";
import type { Query } from "./operations.js";
import { byCursor, byOffset, type Pages } from "./pages.js";
import type { CallOptions, KeyOptions, Service } from "./service.js";
import { poll, type WaitOptions } from "./waiting.js";

/** The methods for a storefront's key or token. */
export class Marketfront {
  readonly #service: Service;

  constructor(service: Service) {
    this.#service = service;
  }

  // --- stores

  /** List stores: by place, nearest first; else by words, best match first; else by name. */
  discoverStores(
    request: types.DiscoverRequest = {},
    options?: CallOptions,
  ): Pages<types.DiscoverResponse, types.DiscoveredStore> {
    return byOffset(
      request.offset ?? 0,
      ({ offset }) => this.#service.perform("discoverStores", { body: { ...request, offset } }, options),
      (page) => page.stores,
    );
  }

  /** Return a store as it is now. */
  getMarketfrontStore(storeId: string, options?: CallOptions): Promise<types.MarketfrontStore> {
    return this.#service.perform("getMarketfrontStore", { path: { storeId } }, options);
  }

  /** Return whether the store is open at an instant, now without one, and why. */
  getStoreAvailability(
    storeId: string,
    query?: Query<"getStoreAvailability">,
    options?: CallOptions,
  ): Promise<types.StoreAvailability> {
    return this.#service.perform("getStoreAvailability", { path: { storeId }, query: { ...query } }, options);
  }

  /** Return a CatalogSet. It never changes under its id, so keep it. */
  getCatalogSet(catalogSetId: string, options?: CallOptions): Promise<types.CatalogSet> {
    return this.#service.perform("getCatalogSet", { path: { catalogSetId } }, options);
  }

  // --- carts

  /** Return the cart with one more item, priced. The answer can be sent as the cart of the next request. */
  addCartItem(request: types.AddCartItemRequest, options?: CallOptions): Promise<types.PricedCart> {
    return this.#service.perform("addCartItem", { body: request }, options);
  }

  /** Return the cart without one of its lines, priced. */
  removeCartItem(request: types.RemoveCartItemRequest, options?: CallOptions): Promise<types.PricedCart> {
    return this.#service.perform("removeCartItem", { body: request }, options);
  }

  /** Return the cart with another quantity of one of its lines, priced. */
  updateCartItem(request: types.UpdateCartItemRequest, options?: CallOptions): Promise<types.PricedCart> {
    return this.#service.perform("updateCartItem", { body: request }, options);
  }

  // --- orders

  /** Return whether the order can be placed, what it costs, and the token that places it. */
  validateOrder(order: types.OrderCore, options?: CallOptions): Promise<types.ValidateOrderResponse> {
    return this.#service.perform("validateOrder", { body: order }, options);
  }

  /**
   * Place an order, once for each idempotency key.
   *
   * Give a key that you have stored with the order, so that you can repeat the call after a crash. If the key came with
   * another order, the `problem` of IDEMPOTENCY_KEY_REUSED has its `orderId`, if that was placed: read it before you
   * place anything again.
   */
  placeOrder(
    order: types.PlaceOrderRequest,
    { idempotencyKey = crypto.randomUUID(), ...options }: KeyOptions = {},
  ): Promise<types.Order> {
    return this.#service.perform("placeOrder", { body: order, idempotencyKey }, options);
  }

  /**
   * Cancel an order, once for each idempotency key; return it cancelled.
   *
   * Throws ConflictError with CANCELLATION_REFUSED if the store doesn't cancel it, ServerError with STORE_UNREACHABLE
   * while the store doesn't answer: repeat the call with the error's `idempotencyKey`.
   */
  cancelOrder(
    orderId: string,
    request: types.CancelOrderRequest,
    { idempotencyKey = crypto.randomUUID(), ...options }: KeyOptions = {},
  ): Promise<types.Order> {
    return this.#service.perform("cancelOrder", { path: { orderId }, body: request, idempotencyKey }, options);
  }

  /** List the orders that were placed with this account, newest first. */
  listMarketfrontOrders(
    query?: Query<"listMarketfrontOrders">,
    options?: CallOptions,
  ): Pages<types.MarketfrontOrderPage, types.Order> {
    return byCursor(
      (position) => this.#service.perform("listMarketfrontOrders", { query: { ...query, ...position } }, options),
      (page) => page.orders,
    );
  }

  /** Return an order that was placed with this account, as it is now. */
  getMarketfrontOrder(orderId: string, options?: CallOptions): Promise<types.Order> {
    return this.#service.perform("getMarketfrontOrder", { path: { orderId } }, options);
  }

  /** Return the history of an order, with every webhook attempt. */
  getMarketfrontOrderTimeline(orderId: string, options?: CallOptions): Promise<types.OrderTimeline> {
    return this.#service.perform("getMarketfrontOrderTimeline", { path: { orderId } }, options);
  }

  /** Wait until an order is completed or cancelled. Throws DeadlineError, with the order as `last`. */
  waitUntilClosed(orderId: string, options?: WaitOptions): Promise<types.Order> {
    const closed = (order: types.Order) => order.state !== "open";
    return poll(this.#service, "getMarketfrontOrder", { path: { orderId } }, closed, options);
  }

  // --- feeds

  /**
   * Return the events after a cursor, the oldest first, and the cursor to go on from: keep it.
   *
   * With `wait`, in whole seconds up to 25, an answer without an event is held until there is one.
   */
  listMarketfrontEvents(query?: Query<"listMarketfrontEvents">, options?: CallOptions): Promise<types.EventPage> {
    return this.#service.perform("listMarketfrontEvents", { query: { ...query } }, options);
  }

  /**
   * Return the stores that changed after a cursor, one entry a store, and the cursor to go on from: keep it.
   *
   * Without a cursor, every store once. With `wait`, an answer without a change is held until there is one.
   */
  listStoreChanges(query?: Query<"listStoreChanges">, options?: CallOptions): Promise<types.StoreChangePage> {
    return this.#service.perform("listStoreChanges", { query: { ...query } }, options);
  }

  // --- reports

  /**
   * Return a row for each order placed from one day to another, which is included, and their sums by currency.
   *
   * The whole report is in memory. Ask for fewer days if there are hundreds of thousands of orders, or for CSV, which
   * is sent as it is read.
   */
  reportMarketfrontOrders(query: Query<"reportMarketfrontOrders">, options?: CallOptions): Promise<types.OrderReport> {
    return this.#service.perform("reportMarketfrontOrders", { query: { ...query } }, options);
  }

  // --- refused requests

  /** List the account's requests that were refused in the last 7 days, newest first. */
  listMarketfrontRequests(
    query?: Query<"listMarketfrontRequests">,
    options?: CallOptions,
  ): Pages<types.RefusedRequestPage, types.RefusedRequest> {
    return byCursor(
      (position) => this.#service.perform("listMarketfrontRequests", { query: { ...query, ...position } }, options),
      (page) => page.requests,
    );
  }

  // --- webhooks

  /** List the order events that the account was sent, newest first. */
  listMarketfrontWebhookDeliveries(
    query?: Query<"listMarketfrontWebhookDeliveries">,
    options?: CallOptions,
  ): Pages<types.WebhookDeliveryPage, types.WebhookDelivery> {
    return byCursor(
      (position) =>
        this.#service.perform("listMarketfrontWebhookDeliveries", { query: { ...query, ...position } }, options),
      (page) => page.deliveries,
    );
  }

  /** Return an order event with its body and every attempt. */
  getMarketfrontWebhookDelivery(deliveryId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("getMarketfrontWebhookDelivery", { path: { deliveryId } }, options);
  }

  /** Redeliver an order event with the same id and body. */
  redeliverMarketfrontWebhook(deliveryId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("redeliverMarketfrontWebhook", { path: { deliveryId } }, options);
  }

  /** Redeliver many webhooks in the background, the oldest first; return how many. */
  redeliverMarketfrontWebhooks(request: types.RedeliverRequest, options?: CallOptions): Promise<types.RedeliverAccepted> {
    return this.#service.perform("redeliverMarketfrontWebhooks", { body: request }, options);
  }

  // --- agents

  /** List this account's agents with what they spent today, newest first; revoked ones are among them. */
  listAgents(query?: Query<"listAgents">, options?: CallOptions): Pages<types.AgentPage, types.Agent> {
    return byCursor(
      (position) => this.#service.perform("listAgents", { query: { ...query, ...position } }, options),
      (page) => page.agents,
    );
  }

  /**
   * Create an agent, which orders within limits. Only this answer has its `key`: store it.
   *
   * It is revoked with the key of this client. With a key, not with an access token.
   */
  createAgent(request: types.NewAgentRequest, options?: CallOptions): Promise<types.AgentWithKey> {
    return this.#service.perform("createAgent", { body: request }, options);
  }

  /** Return an agent with what it spent today. */
  getAgent(agentId: string, options?: CallOptions): Promise<types.Agent> {
    return this.#service.perform("getAgent", { path: { agentId } }, options);
  }

  /** Revoke an agent: its keys are refused everywhere within 2 seconds. Its orders go on. */
  revokeAgent(agentId: string, options?: CallOptions): Promise<void> {
    return this.#service.perform("revokeAgent", { path: { agentId } }, options);
  }

  // --- webhook endpoints

  /** List the addresses that events are sent to, the oldest first. */
  listMarketfrontWebhookEndpoints(
    query?: Query<"listMarketfrontWebhookEndpoints">,
    options?: CallOptions,
  ): Pages<types.WebhookEndpointPage, types.WebhookEndpoint> {
    return byCursor(
      (position) =>
        this.#service.perform("listMarketfrontWebhookEndpoints", { query: { ...query, ...position } }, options),
      (page) => page.endpoints,
    );
  }

  /** Register an address for events. Only this answer has its `secret`: store it. */
  createMarketfrontWebhookEndpoint(
    request: types.WebhookEndpointRequest,
    options?: CallOptions,
  ): Promise<types.WebhookEndpointWithSecret> {
    return this.#service.perform("createMarketfrontWebhookEndpoint", { body: request }, options);
  }

  /** Return an address that events are sent to. */
  getMarketfrontWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<types.WebhookEndpoint> {
    return this.#service.perform("getMarketfrontWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Replace what an endpoint says. Without `headers` they stay, unless the URL has another origin. */
  updateMarketfrontWebhookEndpoint(
    endpointId: string,
    request: types.WebhookEndpointRequest,
    options?: CallOptions,
  ): Promise<types.WebhookEndpoint> {
    return this.#service.perform("updateMarketfrontWebhookEndpoint", { path: { endpointId }, body: request }, options);
  }

  /** Delete an endpoint; what waits for it isn't sent. */
  deleteMarketfrontWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<void> {
    return this.#service.perform("deleteMarketfrontWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Send a signed `ping` to an endpoint. The delivery tells what it answered, once it was sent. */
  testMarketfrontWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("testMarketfrontWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Give an endpoint a new `secret`, which only this answer has. The old one signs, too, for the overlap. */
  rotateMarketfrontWebhookEndpointSecret(
    endpointId: string,
    request: types.RotateEndpointSecretRequest = {},
    options?: CallOptions,
  ): Promise<types.WebhookEndpointWithSecret> {
    return this.#service.perform("rotateMarketfrontWebhookEndpointSecret", { path: { endpointId }, body: request }, options);
  }
}

/**
 * Return the request that places an order as validated, at exactly that total.
 *
 * `payment` goes to the store unchanged. Throws ConfigurationError for an invalid order.
 */
export function toPlace(
  order: types.OrderCore,
  validated: types.ValidateOrderResponse,
  payment?: Record<string, unknown>,
): types.PlaceOrderRequest {
  const { isValid, validatedOrderToken } = validated;
  const { amounts, errors } = validated.order;
  if (!isValid || !amounts) {
    throw new ConfigurationError(`The order is invalid: ${errors.map((error) => error.code).join(", ")}.`);
  }
  return {
    ...order,
    amounts: { tip: order.amounts?.tip ?? null, total: amounts.total },
    validatedOrderToken,
    ...(payment && { payment }),
  };
}
