// The operations, and what a call of each sends and returns, by the types of the OpenAPI document.

import type { operations, paths, webhooks } from "./api.js";

/** The agents' door, which clients of the Model Context Protocol call. */
type Door = "sendMcpMessage";

/** The id of an operation that takes a partner's key. */
export type OperationId = Exclude<keyof operations, `${keyof webhooks}Webhook` | Door>;

type Verb = "delete" | "get" | "post" | "put";
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : false) : false;

/** Verb and path of an operation, as the document has them. */
type Route<Id extends OperationId> = {
  [Path in keyof paths]: {
    [V in Verb]: Same<paths[Path][V], operations[Id]> extends true ? `${Uppercase<V>} ${Path}` : never;
  }[Verb];
}[keyof paths];

/** Every operation. What the document doesn't have, or what is missing here, doesn't compile. */
export const ROUTES: Readonly<{ [Id in OperationId]: Route<Id> }> = {
  registerStore: "POST /v1/commerce/onboarding/stores",
  listOnboardings: "GET /v1/commerce/onboarding/stores",
  getOnboardingStatus: "GET /v1/commerce/onboarding/stores/{onboardingId}",
  cancelOnboarding: "DELETE /v1/commerce/onboarding/stores/{onboardingId}",
  retryOnboarding: "POST /v1/commerce/onboarding/stores/{onboardingId}/retry",
  activateStore: "POST /v1/commerce/onboarding/stores/{onboardingId}/activate",
  notifyCatalogUpdate: "POST /v1/commerce/catalogset-notification",
  getCatalogIngestStatus: "GET /v1/commerce/stores/{storeId}/catalog-ingest/{catalogIngestId}/status",
  listCatalogIngestRuns: "GET /v1/commerce/stores/{storeId}/catalog-ingest",
  putCatalog: "PUT /v1/commerce/stores/{storeId}/catalog",
  cancelCatalogActivation: "DELETE /v1/commerce/stores/{storeId}/catalog-ingest/{catalogIngestId}/activation",
  listCatalogSets: "GET /v1/commerce/stores/{storeId}/catalog-sets",
  activateCatalogSet: "POST /v1/commerce/stores/{storeId}/catalog-sets/{catalogSetId}/activate",
  validateCatalogSet: "POST /v1/commerce/catalogset-validation",
  getCommerceCatalogSet: "GET /v1/commerce/catalog-sets/{catalogSetId}",
  getStoreIds: "GET /v1/commerce/stores/{storeId}/ids",
  listStores: "GET /v1/commerce/stores",
  getStore: "GET /v1/commerce/stores/{storeId}",
  updateStore: "PUT /v1/commerce/stores/{storeId}",
  getStoreStatus: "GET /v1/commerce/stores/{storeId}/status",
  setStoreStatus: "POST /v1/commerce/stores/{storeId}/status",
  setStoreStatuses: "POST /v1/commerce/stores/status",
  setItemAvailability: "POST /v1/commerce/stores/{storeId}/item-availability",
  listOrders: "GET /v1/commerce/orders",
  getOrder: "GET /v1/commerce/orders/{orderId}",
  getOrderTimeline: "GET /v1/commerce/orders/{orderId}/timeline",
  updateOrderStatuses: "POST /v1/commerce/orders/status",
  updateOrderStatus: "POST /v1/commerce/orders/{orderId}/status",
  listCommerceEvents: "GET /v1/commerce/events",
  reportCommerceOrders: "GET /v1/commerce/reports/orders",
  listCommerceRequests: "GET /v1/commerce/requests",
  listCommerceWebhookDeliveries: "GET /v1/commerce/webhook-deliveries",
  getCommerceWebhookDelivery: "GET /v1/commerce/webhook-deliveries/{deliveryId}",
  redeliverCommerceWebhooks: "POST /v1/commerce/webhook-deliveries/redeliver",
  redeliverCommerceWebhook: "POST /v1/commerce/webhook-deliveries/{deliveryId}/redeliver",
  listCommerceWebhookEndpoints: "GET /v1/commerce/webhook-endpoints",
  createCommerceWebhookEndpoint: "POST /v1/commerce/webhook-endpoints",
  getCommerceWebhookEndpoint: "GET /v1/commerce/webhook-endpoints/{endpointId}",
  updateCommerceWebhookEndpoint: "PUT /v1/commerce/webhook-endpoints/{endpointId}",
  deleteCommerceWebhookEndpoint: "DELETE /v1/commerce/webhook-endpoints/{endpointId}",
  testCommerceWebhookEndpoint: "POST /v1/commerce/webhook-endpoints/{endpointId}/test",
  rotateCommerceWebhookEndpointSecret: "POST /v1/commerce/webhook-endpoints/{endpointId}/rotate-secret",
  discoverStores: "POST /v1/marketfront/stores/discover",
  getMarketfrontStore: "GET /v1/marketfront/stores/{storeId}",
  getStoreAvailability: "GET /v1/marketfront/stores/{storeId}/availability",
  getCatalogSet: "GET /v1/marketfront/catalog-sets/{catalogSetId}",
  addCartItem: "POST /v1/marketfront/carts/add",
  removeCartItem: "POST /v1/marketfront/carts/remove",
  updateCartItem: "POST /v1/marketfront/carts/update",
  validateOrder: "POST /v1/marketfront/orders/validate",
  placeOrder: "POST /v1/marketfront/orders/place",
  listMarketfrontOrders: "GET /v1/marketfront/orders",
  getMarketfrontOrder: "GET /v1/marketfront/orders/{orderId}",
  adjustOrder: "POST /v1/commerce/orders/{orderId}/adjustments",
  cancelOrder: "POST /v1/marketfront/orders/{orderId}/cancel",
  getMarketfrontOrderTimeline: "GET /v1/marketfront/orders/{orderId}/timeline",
  listMarketfrontEvents: "GET /v1/marketfront/events",
  listStoreChanges: "GET /v1/marketfront/stores/changes",
  listAgents: "GET /v1/marketfront/agents",
  createAgent: "POST /v1/marketfront/agents",
  getAgent: "GET /v1/marketfront/agents/{agentId}",
  revokeAgent: "DELETE /v1/marketfront/agents/{agentId}",
  reportMarketfrontOrders: "GET /v1/marketfront/reports/orders",
  listMarketfrontRequests: "GET /v1/marketfront/requests",
  listMarketfrontWebhookDeliveries: "GET /v1/marketfront/webhook-deliveries",
  getMarketfrontWebhookDelivery: "GET /v1/marketfront/webhook-deliveries/{deliveryId}",
  redeliverMarketfrontWebhooks: "POST /v1/marketfront/webhook-deliveries/redeliver",
  redeliverMarketfrontWebhook: "POST /v1/marketfront/webhook-deliveries/{deliveryId}/redeliver",
  listMarketfrontWebhookEndpoints: "GET /v1/marketfront/webhook-endpoints",
  createMarketfrontWebhookEndpoint: "POST /v1/marketfront/webhook-endpoints",
  getMarketfrontWebhookEndpoint: "GET /v1/marketfront/webhook-endpoints/{endpointId}",
  updateMarketfrontWebhookEndpoint: "PUT /v1/marketfront/webhook-endpoints/{endpointId}",
  deleteMarketfrontWebhookEndpoint: "DELETE /v1/marketfront/webhook-endpoints/{endpointId}",
  testMarketfrontWebhookEndpoint: "POST /v1/marketfront/webhook-endpoints/{endpointId}/test",
  rotateMarketfrontWebhookEndpointSecret: "POST /v1/marketfront/webhook-endpoints/{endpointId}/rotate-secret",
  createConsoleLink: "POST /v1/console/links",
  explainWebhookSignature: "POST /v1/webhooks/explain",
};

/** Those that are safe to send twice, beside every GET: they change nothing, or have an Idempotency-Key. */
export const REPEATABLE: ReadonlySet<OperationId> = new Set<OperationId>([
  "validateCatalogSet",
  "discoverStores",
  "addCartItem",
  "removeCartItem",
  "updateCartItem",
  "validateOrder",
  "placeOrder",
  "cancelOrder",
  "adjustOrder",
  "explainWebhookSignature",
]);

type Json<T> = T extends { content: { "application/json": infer Body } } ? Body : never;
type RequestBody<Id extends OperationId> = NonNullable<operations[Id]["requestBody"]>;

/** The query of an operation. */
export type Query<Id extends OperationId> = NonNullable<operations[Id]["parameters"]["query"]>;

/** The parts of a request: ids of the path, query, body. A body of text or bytes is sent as it is. */
export type Sent<Id extends OperationId> = Pick<operations[Id]["parameters"], "path" | "query"> &
  ([RequestBody<Id>] extends [never]
    ? { readonly body?: never }
    : { readonly body: Json<RequestBody<Id>> | string | Uint8Array }) & {
    readonly idempotencyKey?: string;
  };

type Success<Responses> = Responses extends { 200: infer A }
  ? Json<A>
  : Responses extends { 201: infer A }
    ? Json<A>
    : Responses extends { 202: infer A }
      ? Json<A>
      : undefined;

/** What an operation returns. */
export type Answer<Id extends OperationId> = Success<operations[Id]["responses"]>;

type WithoutBody = { [Id in OperationId]: Answer<Id> extends undefined ? Id : never }[OperationId];

/** Those whose answer has no body (204). What the document doesn't say, or what is missing here, doesn't compile. */
export const WITHOUT_BODY: Readonly<Record<WithoutBody, true>> = {
  cancelOnboarding: true,
  cancelCatalogActivation: true,
  deleteCommerceWebhookEndpoint: true,
  deleteMarketfrontWebhookEndpoint: true,
  revokeAgent: true,
};
