"""Who may sign in with an OpenID Connect provider, by a verified e-mail address or a claim of the ID token."""

from collections.abc import Mapping
from typing import Final

from mercato.features.sign_in.model import Grant
from mercato.settings import SettingsError

ACTOR: Final = "oidc:"
"""What a session's `created_by` begins with: `oidc:<person>`, then a space and the claim that let the person in."""

MAX_NAME: Final = 255
"""Characters of an e-mail address or a subject (OpenID Connect Core, 2)."""


def is_signed_on(grant: Grant) -> bool:
    """Return whether a provider has named the person of the session."""
    return grant.created_by.startswith(ACTOR)


def person_of(grant: Grant) -> str:
    """Return the e-mail address or the subject of the person whom a provider has named."""
    return grant.created_by.removeprefix(ACTOR).partition(" ")[0]


class People:
    """The rules of two settings: who is an operator, and who may only look."""

    def __init__(self, operators: str | None, viewers: str | None) -> None:
        """Each is a comma-separated list of e-mail addresses and `claim=value`. Raises SettingsError."""
        faults: list[str] = []
        self._operators = _rules("MERCATO_OIDC_OPERATORS", operators, faults)
        self._viewers = _rules("MERCATO_OIDC_VIEWERS", viewers, faults)
        if faults:
            raise SettingsError("\n".join(faults))
        if not self._operators and not self._viewers:
            raise SettingsError(
                "MERCATO_OIDC_ISSUER is set, but nobody may sign in. Name them, as in "
                "MERCATO_OIDC_OPERATORS='anna@example.com, groups=operators'."
            )

    def admit(self, claims: Mapping[str, object]) -> Grant | None:
        """Return what the person of a verified ID token may open; None for somebody who may not."""
        email, is_verified = claims.get("email"), claims.get("email_verified") is True
        address = _address(email) if is_verified and isinstance(email, str) and _is_name(email) else None
        person = address or claims.get("sub")
        if not isinstance(person, str) or not _is_name(person):
            return None
        for rules, read_only in ((self._operators, False), (self._viewers, True)):
            if address in rules:
                return Grant(partner_id=None, created_by=f"{ACTOR}{address}", read_only=read_only)
            for rule in sorted(rules):
                if _matches(rule, claims):
                    return Grant(partner_id=None, created_by=f"{ACTOR}{person} {rule}", read_only=read_only)
        return None

    def allow(self, grant: Grant) -> bool:
        """Return whether the settings still let in the person of a session."""
        person, _, claim = grant.created_by.removeprefix(ACTOR).partition(" ")
        rule = claim or person
        return rule in self._operators or (grant.read_only and rule in self._viewers)


def _rules(setting: str, text: str | None, faults: list[str]) -> frozenset[str]:
    """Return the rules of a setting, and append what is wrong with each entry that is none."""
    rules = set()
    for entry in filter(None, (part.strip() for part in (text or "").split(","))):
        claim, is_claim, value = (part.strip() for part in entry.partition("="))
        if is_claim and claim in {"email", "email_verified"}:
            faults.append(f"{setting}: write an e-mail address alone, without {claim}=.")
        elif is_claim and claim and value:
            rules.add(f"{claim}={value}")
        elif "@" in entry and not is_claim and _is_name(entry):
            rules.add(_address(entry))
        else:
            faults.append(
                f"{setting}: {entry!r} is neither an e-mail address nor claim=value. "
                "Write them as anna@example.com, groups=operators."
            )
    return frozenset(rules)


def _matches(rule: str, claims: Mapping[str, object]) -> bool:
    claim, _, value = rule.partition("=")
    found = claims.get(claim)
    return bool(value) and (found == value or (isinstance(found, list) and value in found))


def _address(text: str) -> str:
    """Return an e-mail address in the form that is compared: other scripts have letters whose lower case is ASCII."""
    return text.lower() if text.isascii() else text


def _is_name(text: str) -> bool:
    """Return whether the text can name a person in the log and the audit trail."""
    return 0 < len(text) <= MAX_NAME and text.isprintable() and " " not in text
