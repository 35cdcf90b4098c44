// A list: awaited it is its first page, and in `for await` every entry of every page.

import { UnreadableError } from "./errors.js";

/** The answer to a list. Nothing is sent before it is awaited or read. */
export class Pages<Page, Entry> implements Promise<Page>, AsyncIterable<Entry> {
  readonly [Symbol.toStringTag] = "Pages";
  readonly #pages: () => AsyncGenerator<Page, void>;
  readonly #entries: (page: Page) => readonly Entry[];
  #first: Promise<Page> | undefined;

  constructor(pages: () => AsyncGenerator<Page, void>, entries: (page: Page) => readonly Entry[]) {
    this.#pages = pages;
    this.#entries = (page) => {
      const read = entries(page) as unknown;
      if (Array.isArray(read)) return read as Entry[];
      throw new UnreadableError("The answer to a list isn't from a Mercato service. Is the URL right?");
    };
  }

  /** Return the first page. */
  then<A = Page, B = never>(
    onPage?: ((page: Page) => A | PromiseLike<A>) | null,
    onFault?: ((fault: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    return this.#page().then(onPage, onFault);
  }

  catch<B = never>(onFault?: ((fault: unknown) => B | PromiseLike<B>) | null): Promise<Page | B> {
    return this.#page().catch(onFault);
  }

  finally(onEnd?: (() => void) | null): Promise<Page> {
    return this.#page().finally(onEnd);
  }

  #page(): Promise<Page> {
    // Every list has a first page, even one without entries.
    return (this.#first ??= this.#pages()
      .next()
      .then(({ value }) => value as Page));
  }

  /** Yield every entry of every page, which are read as they are needed. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Entry, void> {
    for await (const page of this.#pages()) yield* this.#entries(page);
  }
}

/** Return a list whose next page is at `nextCursor`. */
export function byCursor<Page extends { readonly nextCursor: string | null }, Entry>(
  ask: (position: { readonly cursor?: string }) => Promise<Page>,
  entries: (page: Page) => readonly Entry[],
): Pages<Page, Entry> {
  return new Pages(async function* () {
    let cursor: string | undefined;
    for (;;) {
      const page = await ask(cursor === undefined ? {} : { cursor });
      yield page;
      const { nextCursor } = page;
      if (!nextCursor) return;
      // Otherwise the same page would be asked for without an end.
      if (nextCursor === cursor) throw new UnreadableError("The answer to a list names its own cursor as the next one.");
      cursor = nextCursor;
    }
  }, entries);
}

/** Return a list whose next page begins after the entries that were read. */
export function byOffset<Page extends { readonly hasMore: boolean }, Entry>(
  start: number,
  ask: (position: { readonly offset: number }) => Promise<Page>,
  entries: (page: Page) => readonly Entry[],
): Pages<Page, Entry> {
  return new Pages(async function* () {
    for (let offset = start; ; ) {
      const page = await ask({ offset });
      yield page;
      if (!page.hasMore || !entries(page).length) return;
      offset += entries(page).length;
    }
  }, entries);
}
