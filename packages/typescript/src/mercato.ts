// The client: both surfaces of one service.

import type * as types from "./api.js";
import { Commerce } from "./commerce.js";
import { Marketfront } from "./marketfront.js";
import { type CallOptions, type MercatoOptions, Service } from "./service.js";

/** A partner's client. Its key opens one of the surfaces. */
export class Mercato {
  readonly commerce: Commerce;
  readonly marketfront: Marketfront;
  readonly #service: Service;

  /** Without `url` and `key` it takes `MERCATO_URL` and `MERCATO_KEY`. */
  constructor(options: MercatoOptions = {}) {
    this.#service = new Service(options);
    this.commerce = new Commerce(this.#service);
    this.marketfront = new Marketfront(this.#service);
  }

  /** Return a link that signs one browser in to the console of this account, within 15 minutes. */
  createConsoleLink(request: types.ConsoleLinkRequest = {}, options?: CallOptions): Promise<types.ConsoleLink> {
    return this.#service.perform("createConsoleLink", { body: request }, options);
  }

  /** Return what is wrong with a webhook's signature, compared with what the service has sent. */
  explainWebhookSignature(
    request: types.ExplainSignatureRequest,
    options?: CallOptions,
  ): Promise<types.SignatureExplanation> {
    return this.#service.perform("explainWebhookSignature", { body: request }, options);
  }
}
