"""`mercato doctor`: what is wrong, and what to do about it."""

import os
from pathlib import Path
from typing import Final

from mercato.cli.failures import DIFFERS_ADVICE
from mercato.cli.session import opened
from mercato.features.doctor import Check, Remedy, State, checks
from mercato.settings import Settings, load
from mercato_contract import clock
from mercato_tools.cli import FAILED, UNUSABLE
from mercato_tools.cli.failures import explain
from mercato_tools.cli.options import DataDir, Json
from mercato_tools.cli.output import finding, print_json, say
from mercato_tools.settings import SettingsError

_REMEDIES: Final = {
    Remedy.CREATE_TABLES: "Create them with: mercato migrate",
    Remedy.MIGRATE: "Run mercato migrate: it changes the tables, or says why it can't and what to do.",
    Remedy.FINISH_COPY: "Finish it with the same mercato db copy, or name another database.",
    Remedy.REPLACE_DATABASE: DIFFERS_ADVICE,
    Remedy.START_WORKER: "Start one: mercato serve, or mercato worker.",
    Remedy.REVIVE_JOBS: "mercato job list says why; once that is fixed: mercato job revive. "
    "They are deleted after 30 days.",
    Remedy.ENABLE_ENDPOINTS: "Ask their partners; then: mercato webhooks enable PARTNER URL",
    Remedy.LIST_PLACEMENTS: "The stores don't answer; such an order is cancelled after "
    "MERCATO_PLACE_RESEND_SECONDS. See why: mercato webhooks list --type order.place",
    Remedy.LIST_STORES: "Tell their merchants. See them with mercato store list --in-trouble, and why with "
    "mercato webhooks list --status failed. The first call that succeeds ends it.",
    Remedy.LIST_DELIVERIES: "See them with mercato webhooks list, and tell their partners: "
    "after 5 days they are disabled.",
}


_CODES: Final = {State.OK: 0, State.NOTE: 0, State.WRONG: FAILED, State.UNUSABLE: UNUSABLE}


async def doctor(*, json: Json = False, data_dir: DataDir = None) -> int:
    """Check settings, database, clock, keys, background work and partners, and say what to do. Changes nothing.

    Exit code 0: nothing is wrong; 1: something is wrong; 2: nothing works.
    """
    found = await _check(data_dir)
    code = max(_CODES[check.state] for check in found)
    if json:
        results = [
            {"name": check.name, "state": check.state, "said": check.message}
            | ({"advice": advice} if (advice := _advice(check)) else {})
            for check in found
        ]
        print_json({"ok": code == 0, "checks": results})
        return code
    width = max(len(check.name) for check in found)
    for check in found:
        first = f"{check.state.upper():<8}  {check.name:<{width}}  "
        say(*finding(check.message, _advice(check), first=first, indent=" " * len(first)))
    return code


def _advice(check: Check) -> str:
    return _REMEDIES[check.advice] if isinstance(check.advice, Remedy) else check.advice


async def _check(data_dir: Path | None) -> list[Check]:
    try:
        settings = load(os.environ, data_dir=data_dir)
    except SettingsError as error:
        return [_failed("settings", error)]
    found = [Check(name="settings", state=State.OK, message="they can be read")]
    try:
        async with opened(data_dir) as core, core.db.read() as tx:
            async for check in checks(tx, core.settings):
                found.append(check)  # noqa: PERF401  # what was found stays when a later check fails
    except Exception as error:  # noqa: BLE001  # whatever makes the database unusable is a finding
        found.append(_failed("database", error))
    if settings.has_sign_on:
        found.append(await check_sign_on(settings))
    return found


async def check_sign_on(settings: Settings) -> Check:
    """Return whether the settings are complete, and the provider's configuration and keys can be read."""
    from mercato.features.sign_in.model import People
    from mercato.features.sign_in.sign_on import Provider, ProviderFailed

    name: Final = "sign-on"
    try:
        People(settings.oidc_operators, settings.oidc_support, settings.oidc_viewers)
        provider = Provider(settings, clock.now)
    except SettingsError as error:
        message = "The settings of single sign-on are incomplete or wrong: no server starts with them."
        return Check(name=name, state=State.UNUSABLE, message=message, advice=str(error))
    try:
        await provider.configuration()
    except ProviderFailed as failed:
        return Check(
            name=name,
            state=State.WRONG,
            message=f"The provider can't be used: {failed.step}: {failed.reason}.",
            advice="Compare MERCATO_OIDC_ISSUER with what the provider states. Until it works, operators sign in with "
            "a passkey or with: mercato console link --operator",
        )
    finally:
        await provider.close()
    return Check(name=name, state=State.OK, message="the provider answers, and its keys can be used")


def _failed(name: str, error: Exception) -> Check:
    """Return an error as a check. Raises it again if it is a bug."""
    failure = explain(error)
    if failure is None:
        raise error
    return Check(name=name, state=State.UNUSABLE, message="cannot be used", advice=failure.message)
