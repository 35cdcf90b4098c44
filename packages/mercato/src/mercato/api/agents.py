"""A storefront's agents: programs that order with keys of their own, within limits."""

from typing import Final

from mercato.features.partners import agents
from mercato.features.partners.model import looks_like_token
from mercato.http.head import Head, bearer_token
from mercato.http.operations import Access, Answer, Call, Operations
from mercato.platform import errors
from mercato_contract.agents import Agent, AgentPage, AgentsQuery, AgentWithKey, NewAgentRequest
from mercato_contract.decoding.decode import page_of, read_cursor

marketfront_agents = Operations(access=Access.MARKETFRONT, tag="Agents", for_agents=False)

AGENTS: Final = "/v1/marketfront/agents"


def _refuse_token(head: Head) -> None:
    """Raise Forbidden for an access token: the agent's key would outlive its hour."""
    if looks_like_token(bearer_token(head)):
        raise errors.Forbidden(
            "An access token can't create agents: their keys could outlive the token. Send the key itself: "
            "Authorization: Bearer <your key>."
        )


@marketfront_agents.get(AGENTS, summary="List Agents")
async def list_agents(call: Call[None, AgentsQuery]) -> AgentPage:
    """Return this account's agents with what they spent today, newest first. Revoked ones are among them."""
    query, now = call.query, call.app.clock()
    async with call.app.db.read() as tx:
        rows = await agents.list_agents(
            tx, call.caller.partner_id, before=read_cursor(query.cursor), limit=query.limit + 1, now=now
        )
    page, cursor = page_of(rows, query.limit, lambda row: row.agent.id)
    return AgentPage(agents=[agents.represent(row, now=now) for row in page], next_cursor=cursor)


@marketfront_agents.post(
    AGENTS,
    summary="Create Agent",
    names_unknown=True,
    status=201,
    answer_headers=("Location",),
    checks_head=_refuse_token,
    problems=(errors.Conflict,),
)
async def create_agent(call: Call[NewAgentRequest, None]) -> Answer[AgentWithKey]:
    """Create an agent. Only this answer has its `key`: a marketfront key for a program that orders, within limits.

    The limits hold for its orders on every route. With the key, the agent finds stores and reads catalogs, and places,
    reads and cancels orders of its own; everything else of the account is closed to it. It is revoked with the key that
    makes this request. An account makes at most 100 active keys (409). With a key, not with an access token.
    """
    app, now = call.app, call.app.clock()
    async with app.db.write() as tx:
        made = await agents.create_own_agent(tx, call.caller, call.body, now=app.clock, new_id=app.new_id)
        [listed] = await agents.with_keys(tx, [made.agent], now=now)
    location = (b"location", f"{AGENTS}/{made.agent.id}".encode())
    return Answer(agents.represent_new(listed, made.key, now=now), headers=(location,))


@marketfront_agents.get(AGENTS + "/{agentId}", summary="Get Agent")
async def get_agent(call: Call[None, None]) -> Agent:
    """Return an agent of this account with what it spent today."""
    now = call.app.clock()
    async with call.app.db.read() as tx:
        agent = await agents.get_agent(tx, call.caller.partner_id, call.ids["agentId"])
        [listed] = await agents.with_keys(tx, [agent], now=now)
    return agents.represent(listed, now=now)


@marketfront_agents.delete(AGENTS + "/{agentId}", summary="Revoke Agent", status=204)
async def revoke_agent(call: Call[None, None]) -> None:
    """Revoke an agent: its keys are refused everywhere within 2 seconds. Its orders go on, and it stays listed."""
    async with call.app.db.write() as tx:
        agent = await agents.get_agent(tx, call.caller.partner_id, call.ids["agentId"])
        await agents.revoke_agent(tx, agent, now=call.app.clock)
