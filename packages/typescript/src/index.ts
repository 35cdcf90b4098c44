// The TypeScript client of a Mercato network, for merchants' systems and storefronts.

export type * as types from "./api.js";
export type { Commerce } from "./commerce.js";
export {
  AuthenticationError,
  AuthorizationError,
  AvailabilityError,
  CatalogFailedError,
  ConfigurationError,
  ConflictError,
  DeadlineError,
  MercatoError,
  NoAnswerError,
  NotFoundError,
  PaymentError,
  type Problem,
  ProblemError,
  RateLimitError,
  ServerError,
  UnreadableError,
  UnreadableWebhookError,
  ValidationError,
  WebhookError,
} from "./errors.js";
export { type Marketfront, toPlace } from "./marketfront.js";
export { Mercato } from "./mercato.js";
export type { Pages } from "./pages.js";
export { type CallOptions, type KeyOptions, type MercatoOptions, type Retries, VERSION } from "./service.js";
export type { WaitOptions } from "./waiting.js";
export { verifyWebhook, type WebhookEvent, type WebhookHeaders } from "./webhooks.js";
