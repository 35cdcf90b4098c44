// The Commerce surface, for merchants' systems.

import type * as types from "./api.js";
import { CatalogFailedError, ConflictError } from "./errors.js";
import type { Query } from "./operations.js";
import { byCursor, type Pages } from "./pages.js";
import type { CallOptions, KeyOptions, Service } from "./service.js";
import { once, poll, type WaitOptions } from "./waiting.js";

/** When a store switches to a new catalog. */
export interface Activation {
  /** An RFC 3339 instant at most 90 days ahead; without one, the store switches as soon as the catalog is checked. */
  readonly activateAt?: string | undefined;
}

const at = (options: Activation | undefined): { activateAt?: string } =>
  options?.activateAt === undefined ? {} : { activateAt: options.activateAt };

/** With activateAt the service says when to ask for the switch. The catalog is built long before. */
const firstPause = (retryAfter: number, { activateAt }: Activation): number =>
  activateAt === undefined ? retryAfter * 1000 : 0;

/** The methods for a merchant's key. */
export class Commerce {
  readonly #service: Service;

  constructor(service: Service) {
    this.#service = service;
  }

  // --- onboarding

  /** Start the onboarding of a store; its catalog is pulled at once. Go on with `waitUntilLive`. */
  registerStore(request: types.OnboardingRequest, options?: CallOptions): Promise<types.OnboardingStatus> {
    return this.#service.perform("registerStore", { body: request }, options);
  }

  /** List the onboardings that were not cancelled, newest first. */
  listOnboardings(
    query?: Query<"listOnboardings">,
    options?: CallOptions,
  ): Pages<types.OnboardingPage, types.OnboardingStatus> {
    return byCursor(
      (position) => this.#service.perform("listOnboardings", { query: { ...query, ...position } }, options),
      (page) => page.onboardings,
    );
  }

  /** Return an onboarding's status; if its catalog has failed, with every error and its pointer. */
  getOnboardingStatus(onboardingId: string, options?: CallOptions): Promise<types.OnboardingStatus> {
    return this.#service.perform("getOnboardingStatus", { path: { onboardingId } }, options);
  }

  /** Cancel an onboarding that is not active. */
  cancelOnboarding(onboardingId: string, options?: CallOptions): Promise<void> {
    return this.#service.perform("cancelOnboarding", { path: { onboardingId } }, options);
  }

  /** Retry a failed onboarding, from another catalog URL if one is given. */
  retryOnboarding(
    onboardingId: string,
    request: types.RetryRequest = {},
    options?: CallOptions,
  ): Promise<types.OnboardingStatus> {
    return this.#service.perform("retryOnboarding", { path: { onboardingId }, body: request }, options);
  }

  /**
   * Make the store live. Only when the status is `ready_to_activate`.
   *
   * If it is live already, the `problem` of ConflictError has its `storeId`. `waitUntilLive` returns the store then.
   */
  activateStore(onboardingId: string, options?: CallOptions): Promise<types.Store> {
    return this.#service.perform("activateStore", { path: { onboardingId } }, options);
  }

  /**
   * Wait until the catalog is checked, activate the store, and return it. One that is live is returned at once.
   *
   * Throws CatalogFailedError with every error of the catalog, and DeadlineError.
   */
  async waitUntilLive(onboardingId: string, options: WaitOptions = {}): Promise<types.Store> {
    const checked = (now: types.OnboardingStatus) =>
      now.status !== "pending_catalog" && now.status !== "catalog_ingesting";
    let now = await poll(this.#service, "getOnboardingStatus", { path: { onboardingId } }, checked, options);
    if (now.status === "catalog_failed") throw new CatalogFailedError(now);
    if (now.status === "ready_to_activate") {
      try {
        return await this.activateStore(onboardingId, once(options));
      } catch (fault) {
        if (!(fault instanceof ConflictError)) throw fault;
        // Activated concurrently, or the answer to the first attempt was lost.
        now = await this.getOnboardingStatus(onboardingId, once(options));
        if (now.storeId === undefined) throw fault;
      }
    }
    return this.getStore(now.storeId ?? "", once(options));
  }

  // --- catalogs

  /** Notify of a new catalog, which is then pulled. `replaceCatalog` also waits until it is served. */
  notifyCatalogUpdate(
    storeId: string,
    callbackUrl: string,
    options?: CallOptions & Activation,
  ): Promise<types.CatalogIngestAccepted> {
    const body = { callbackUrl, ...at(options) };
    return this.#service.perform("notifyCatalogUpdate", { query: { storeId }, body }, options);
  }

  /** Send a new catalog itself; text and bytes as they are. `publishCatalog` also waits until it is served. */
  putCatalog(
    storeId: string,
    document: Readonly<Record<string, unknown>> | string | Uint8Array,
    options?: CallOptions & Activation,
  ): Promise<types.CatalogIngestAccepted> {
    return this.#service.perform("putCatalog", { path: { storeId }, query: at(options), body: document }, options);
  }

  /** Cancel the switch of a run with `activateAt`. The store keeps its catalog. */
  cancelCatalogActivation(storeId: string, catalogIngestId: string, options?: CallOptions): Promise<void> {
    return this.#service.perform("cancelCatalogActivation", { path: { storeId, catalogIngestId } }, options);
  }

  /** List which CatalogSets a store has served, and when, the last one first. */
  listCatalogSets(
    storeId: string,
    query?: Query<"listCatalogSets">,
    options?: CallOptions,
  ): Pages<types.CatalogSetHistory, types.CatalogSetPeriod> {
    const path = { storeId };
    return byCursor(
      (position) => this.#service.perform("listCatalogSets", { path, query: { ...query, ...position } }, options),
      (page) => page.catalogSets,
    );
  }

  /** Switch a store back to a CatalogSet that it served before. Throws ConflictError with CATALOGSET_EXPIRED. */
  activateCatalogSet(
    storeId: string,
    catalogSetId: string,
    options?: CallOptions,
  ): Promise<types.CatalogSetActivated> {
    return this.#service.perform("activateCatalogSet", { path: { storeId, catalogSetId } }, options);
  }

  /** Return the status of a catalog run. */
  getCatalogIngestStatus(
    storeId: string,
    catalogIngestId: string,
    options?: CallOptions,
  ): Promise<types.CatalogIngestStatusResponse> {
    return this.#service.perform("getCatalogIngestStatus", { path: { storeId, catalogIngestId } }, options);
  }

  /** List a store's catalog runs, newest first. */
  listCatalogIngestRuns(
    storeId: string,
    query?: Query<"listCatalogIngestRuns">,
    options?: CallOptions,
  ): Pages<types.CatalogIngestPage, types.CatalogIngestRun> {
    const path = { storeId };
    return byCursor(
      (position) =>
        this.#service.perform("listCatalogIngestRuns", { path, query: { ...query, ...position } }, options),
      (page) => page.runs,
    );
  }

  /**
   * Notify of a new catalog, and wait until the store has switched to it; with `activateAt`, until it is built.
   *
   * Throws CatalogFailedError with every error (the store keeps its catalog then), and DeadlineError.
   */
  async replaceCatalog(
    storeId: string,
    callbackUrl: string,
    options: WaitOptions & Activation = {},
  ): Promise<types.CatalogIngestStatusResponse> {
    const { value, retryAfter = 0 } = await this.#service.exchange(
      "notifyCatalogUpdate",
      { query: { storeId }, body: { callbackUrl, ...at(options) } },
      once(options),
    );
    return this.#ingested(storeId, value.catalogIngestId, options, firstPause(retryAfter, options));
  }

  /**
   * Send a new catalog, and wait until the store has switched to it; with `activateAt`, until it is built.
   *
   * Throws CatalogFailedError with every error (the store keeps its catalog then), and DeadlineError.
   */
  async publishCatalog(
    storeId: string,
    document: Readonly<Record<string, unknown>> | string | Uint8Array,
    options: WaitOptions & Activation = {},
  ): Promise<types.CatalogIngestStatusResponse> {
    const { value, retryAfter = 0 } = await this.#service.exchange(
      "putCatalog",
      { path: { storeId }, query: at(options), body: document },
      once(options),
    );
    return this.#ingested(storeId, value.catalogIngestId, options, firstPause(retryAfter, options));
  }

  /** Wait until a catalog run has succeeded, or waits for its `activateAt`. Throws CatalogFailedError, DeadlineError. */
  waitUntilIngested(
    storeId: string,
    catalogIngestId: string,
    options?: WaitOptions,
  ): Promise<types.CatalogIngestStatusResponse> {
    return this.#ingested(storeId, catalogIngestId, options, 0);
  }

  async #ingested(
    storeId: string,
    catalogIngestId: string,
    options: WaitOptions | undefined,
    firstPause: number,
  ): Promise<types.CatalogIngestStatusResponse> {
    const path = { storeId, catalogIngestId };
    // A run that has its set and hasn't ended waits for its instant.
    const ended = (run: types.CatalogIngestStatusResponse) =>
      run.status === "succeeded" || run.status === "failed" || run.catalogSetId !== undefined;
    const run = await poll(this.#service, "getCatalogIngestStatus", { path }, ended, options, firstPause);
    if (run.status === "failed") throw new CatalogFailedError(run);
    return run;
  }

  /** Check a CatalogSet, or `{callbackUrl}`, as a run would; change nothing. Text and bytes are sent as they are. */
  validateCatalogSet(
    document: Readonly<Record<string, unknown>> | string | Uint8Array,
    query?: Query<"validateCatalogSet">,
    options?: CallOptions,
  ): Promise<types.CatalogValidation> {
    return this.#service.perform("validateCatalogSet", { query: { ...query }, body: document }, options);
  }

  /** Return one of the account's CatalogSets, as storefronts get it. */
  getCommerceCatalogSet(catalogSetId: string, options?: CallOptions): Promise<types.CatalogSet> {
    return this.#service.perform("getCommerceCatalogSet", { path: { catalogSetId } }, options);
  }

  /** Return the served ids of the items and modifier groups in the store's document. */
  getStoreIds(storeId: string, options?: CallOptions): Promise<types.StoreIds> {
    return this.#service.perform("getStoreIds", { path: { storeId } }, options);
  }

  // --- stores

  /** List the account's live stores, newest first. */
  listStores(query?: Query<"listStores">, options?: CallOptions): Pages<types.StorePage, types.Store> {
    return byCursor(
      (position) => this.#service.perform("listStores", { query: { ...query, ...position } }, options),
      (page) => page.stores,
    );
  }

  /** Return a store of the account. */
  getStore(storeId: string, options?: CallOptions): Promise<types.Store> {
    return this.#service.perform("getStore", { path: { storeId } }, options);
  }

  /** Change the members that are given; null clears those that may be empty. */
  updateStore(storeId: string, update: types.StoreUpdate, options?: CallOptions): Promise<types.Store> {
    return this.#service.perform("updateStore", { path: { storeId }, body: update }, options);
  }

  /** Return whether the store accepts orders now. */
  getStoreStatus(storeId: string, options?: CallOptions): Promise<types.StoreStatusResponse> {
    return this.#service.perform("getStoreStatus", { path: { storeId } }, options);
  }

  /** Pause the store, until an instant or until further notice, or bring it online. */
  setStoreStatus(
    storeId: string,
    update: types.StoreStatusUpdate,
    options?: CallOptions,
  ): Promise<types.StoreStatusResponse> {
    return this.#service.perform("setStoreStatus", { path: { storeId }, body: update }, options);
  }

  /** Pause or resume up to 100 stores in one transaction; each result has the store's status or a problem. */
  setStoreStatuses(
    updates: readonly types.StoreStatusEntry[],
    options?: CallOptions,
  ): Promise<types.StoreStatusResults> {
    const body = { updates: [...updates] };
    return this.#service.perform("setStoreStatuses", { body }, options);
  }

  /** Mark items as sold out, or as available again; return all that are sold out now. */
  setItemAvailability(
    storeId: string,
    items: readonly types.ItemAvailabilityEntry[],
    options?: CallOptions,
  ): Promise<types.ItemAvailabilityResponse> {
    const body = { items: [...items] };
    return this.#service.perform("setItemAvailability", { path: { storeId }, body }, options);
  }

  // --- orders

  /** List the orders of the account's stores, newest first. */
  listOrders(query?: Query<"listOrders">, options?: CallOptions): Pages<types.OrderPage, types.CommerceOrder> {
    return byCursor(
      (position) => this.#service.perform("listOrders", { query: { ...query, ...position } }, options),
      (page) => page.orders,
    );
  }

  /** Return an order of the account's stores as it is now. */
  getOrder(orderId: string, options?: CallOptions): Promise<types.CommerceOrder> {
    return this.#service.perform("getOrder", { path: { orderId } }, options);
  }

  /** Return the history of an order, with every webhook attempt. */
  getOrderTimeline(orderId: string, options?: CallOptions): Promise<types.OrderTimeline> {
    return this.#service.perform("getOrderTimeline", { path: { orderId } }, options);
  }

  /** Update up to 100 orders in one transaction; each result has the order's status or a problem. */
  updateOrderStatuses(
    updates: readonly types.OrderStatusEntry[],
    options?: CallOptions,
  ): Promise<types.OrderStatusResults> {
    const body = { updates: [...updates] };
    return this.#service.perform("updateOrderStatuses", { body }, options);
  }

  /** Update an order's status, close it, or say when it will be ready, and who brings it when. */
  updateOrderStatus(
    orderId: string,
    update: types.OrderStatusUpdate,
    options?: CallOptions,
  ): Promise<types.OrderStatusResponse> {
    return this.#service.perform("updateOrderStatus", { path: { orderId }, body: update }, options);
  }

  /**
   * Refund, charge or substitute after an order was placed, once for each idempotency key; return the order.
   *
   * Repeat a call that failed with the error's `idempotencyKey`.
   */
  adjustOrder(
    orderId: string,
    request: types.AdjustOrderRequest,
    { idempotencyKey = crypto.randomUUID(), ...options }: KeyOptions = {},
  ): Promise<types.CommerceOrder> {
    return this.#service.perform("adjustOrder", { path: { orderId }, body: request, idempotencyKey }, options);
  }

  // --- feeds

  /**
   * Return the events after a cursor, the oldest first, and the cursor to go on from: keep it.
   *
   * With `wait`, in whole seconds up to 25, an answer without an event is held until there is one.
   */
  listCommerceEvents(query?: Query<"listCommerceEvents">, options?: CallOptions): Promise<types.EventPage> {
    return this.#service.perform("listCommerceEvents", { query: { ...query } }, options);
  }

  // --- reports

  /**
   * Return a row for each order placed from one day to another, which is included, and their sums by currency.
   *
   * The whole report is in memory. Ask for fewer days if there are hundreds of thousands of orders, or for CSV, which
   * is sent as it is read.
   */
  reportCommerceOrders(query: Query<"reportCommerceOrders">, options?: CallOptions): Promise<types.OrderReport> {
    return this.#service.perform("reportCommerceOrders", { query: { ...query } }, options);
  }

  // --- refused requests

  /** List the account's requests that were refused in the last 7 days, newest first. */
  listCommerceRequests(
    query?: Query<"listCommerceRequests">,
    options?: CallOptions,
  ): Pages<types.RefusedRequestPage, types.RefusedRequest> {
    return byCursor(
      (position) => this.#service.perform("listCommerceRequests", { query: { ...query, ...position } }, options),
      (page) => page.requests,
    );
  }

  // --- webhooks

  /** List the webhooks that the account was sent, newest first. */
  listCommerceWebhookDeliveries(
    query?: Query<"listCommerceWebhookDeliveries">,
    options?: CallOptions,
  ): Pages<types.WebhookDeliveryPage, types.WebhookDelivery> {
    return byCursor(
      (position) =>
        this.#service.perform("listCommerceWebhookDeliveries", { query: { ...query, ...position } }, options),
      (page) => page.deliveries,
    );
  }

  /** Return a webhook with its body and every attempt. */
  getCommerceWebhookDelivery(deliveryId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("getCommerceWebhookDelivery", { path: { deliveryId } }, options);
  }

  /** Redeliver a webhook with the same id and body. */
  redeliverCommerceWebhook(deliveryId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("redeliverCommerceWebhook", { path: { deliveryId } }, options);
  }

  /** Redeliver many webhooks in the background, the oldest first; return how many. */
  redeliverCommerceWebhooks(request: types.RedeliverRequest, options?: CallOptions): Promise<types.RedeliverAccepted> {
    return this.#service.perform("redeliverCommerceWebhooks", { body: request }, options);
  }

  // --- webhook endpoints

  /** List the addresses that events are sent to, the oldest first. */
  listCommerceWebhookEndpoints(
    query?: Query<"listCommerceWebhookEndpoints">,
    options?: CallOptions,
  ): Pages<types.WebhookEndpointPage, types.WebhookEndpoint> {
    return byCursor(
      (position) =>
        this.#service.perform("listCommerceWebhookEndpoints", { query: { ...query, ...position } }, options),
      (page) => page.endpoints,
    );
  }

  /** Register an address for events. Only this answer has its `secret`: store it. */
  createCommerceWebhookEndpoint(
    request: types.WebhookEndpointRequest,
    options?: CallOptions,
  ): Promise<types.WebhookEndpointWithSecret> {
    return this.#service.perform("createCommerceWebhookEndpoint", { body: request }, options);
  }

  /** Return an address that events are sent to. */
  getCommerceWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<types.WebhookEndpoint> {
    return this.#service.perform("getCommerceWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Replace what an endpoint says. Without `headers` they stay, unless the URL has another origin. */
  updateCommerceWebhookEndpoint(
    endpointId: string,
    request: types.WebhookEndpointRequest,
    options?: CallOptions,
  ): Promise<types.WebhookEndpoint> {
    return this.#service.perform("updateCommerceWebhookEndpoint", { path: { endpointId }, body: request }, options);
  }

  /** Delete an endpoint; what waits for it isn't sent. */
  deleteCommerceWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<void> {
    return this.#service.perform("deleteCommerceWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Send a signed `ping` to an endpoint. The delivery tells what it answered, once it was sent. */
  testCommerceWebhookEndpoint(endpointId: string, options?: CallOptions): Promise<types.WebhookDeliveryDetail> {
    return this.#service.perform("testCommerceWebhookEndpoint", { path: { endpointId } }, options);
  }

  /** Give an endpoint a new `secret`, which only this answer has. The old one signs, too, for the overlap. */
  rotateCommerceWebhookEndpointSecret(
    endpointId: string,
    request: types.RotateEndpointSecretRequest = {},
    options?: CallOptions,
  ): Promise<types.WebhookEndpointWithSecret> {
    return this.#service.perform("rotateCommerceWebhookEndpointSecret", { path: { endpointId }, body: request }, options);
  }
}
