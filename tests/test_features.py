"""The features know no command and no console: whoever shows a value adds the words of its own surface."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import mercato.features
from mercato.cli.failures import explain
from mercato.console.site import NEXT_STEPS
from mercato.features.partners import model
from mercato.features.partners.model import AccountError
from mercato_contract.clock import new_id, now
from mercato_tools.cli.commands import app

COMMANDS = "|".join(name for name in app if not name.startswith("-"))
WORDS = re.compile(
    rf"\bmercato ({COMMANDS})\b|(?<!\w)--[a-z]|\b[Cc]onsole\b.* |.* \b[Cc]onsole\b|\bthe page [A-Z]"
)


def shown_texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the strings of a module but its docstrings and the purposes of keys, which nobody reads."""
    skipped = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        or (
            isinstance(node, ast.AnnAssign)
            and isinstance(node.target, ast.Name)
            and node.target.id == "PURPOSE"
        )
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in skipped:
            yield node.lineno, node.value


def test_features_name_no_command_and_no_page_of_the_console():
    named = [
        f"{path.name}:{line}: {text}"
        for path in Path(mercato.features.__path__[0]).rglob("*.py")
        for line, text in shown_texts(ast.parse(path.read_text()))
        if WORDS.search(text)
    ]
    assert named == []


KEY = model.ApiKey(
    id=new_id(),
    partner_id=new_id(),
    surface=model.Surface.COMMERCE,
    prefix="mk_commerce_3fZk9Q",
    description=None,
    expires_at=None,
    revoked_at=None,
    created_at=now(),
    last_used_at=None,
)
PARTNER = new_id()

REFUSALS: dict[AccountError, tuple[str, str]] = {
    model.UnknownPartnerError(): ("mercato partner list", "the page Partners"),
    model.UnknownKeyError("of that name"): ("mercato key list", "the page Keys"),
    model.TakenNameError("My POS"): ("mercato key create 'My POS'", "Choose another name"),
    model.InactiveKeyError(KEY, model.KeyState.REVOKED): (
        f"mercato key create {KEY.partner_id} --surface commerce",
        "Create a new one.",
    ),
    model.NoStoresError(model.PartnerKind.MARKETFRONT): ("Leave --webhook-token out", "Leave it out"),
    model.SeveralOriginsError(["https://a", "https://b"]): ("--webhook-origin", "in the field beside it"),
    model.OpenOrdersError(PARTNER, 2): (
        f"mercato order list --state open --partner {PARTNER}",
        "the page Orders",
    ),
}


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: type(refusal).__name__)
def test_a_refusal_of_an_account_says_what_to_do_with_a_command_and_in_the_console(refusal: AccountError):
    with_command, in_console = REFUSALS[refusal]
    failure = explain(refusal)
    assert failure is not None
    assert failure.message.startswith(str(refusal))
    assert with_command in failure.message
    assert in_console in NEXT_STEPS[type(refusal)]
