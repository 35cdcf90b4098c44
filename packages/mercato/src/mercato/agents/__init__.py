"""The agents' door: AI agents shop as storefronts and work as merchants, through the Model Context Protocol.

`door` answers `POST /mcp`, `protocol` reads its messages, `registry` names every tool, and `results` writes answers.
The tools are in the other modules, each with its arguments, its result and its text.

To add a tool, in the module of its neighbours or in one of its own that `registry.MODULES` names:

    tools: Final = Tools(Surface.MARKETFRONT)

    @tools.declare(title="Price a cart", calls=[_PRICE], hints=READS, render=render_cart)
    async def price_cart(call: ToolCall[PriceCart]) -> PricedLines:
        '''What it does, for an agent: the description.'''

- `PriceCart` and `PricedLines` are `Wire` types, the first with `forbid_unknown_fields=True`. Their schemas are made of
  them: every description and bound of an argument is read by each agent, so few words. Members that aren't there are
  `X | None = None` in arguments, and `X | UnsetType = UNSET` in results.
- `calls` are operations of the API (`operation_of(carts, "addCartItem")`). The tool is counted as the first of them.
  `await call.perform(operation, body, returns=Type, ids=…, key=…)` carries one out as a request does: decoded, counted,
  refused. A service of `call.app` may be called with `call.caller` if no operation answers what a tool needs.
- Problems are raised, not caught: the door makes results of them. `raise RefusedError(problem)` for one that is stored.
- `render` writes the text, from the result alone. `take_within` ends a list by size: an answer has at most SMALL bytes,
  and LARGE only if a larger `limit` was asked for.
- Text of merchants and customers goes through `texts.plain` or `texts.described`.
- A handler returns an `Elicitation` if a person must open a URL and `call.takes_urls`; the client repeats the call.
"""
