"""Headings in words of other languages: which column of a menu each probably is. Nothing is read by them."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from msgspec import Struct

CLOSE: Final = 0.7
"""How alike a name and a known one are for "did you mean", by difflib's ratio."""


class Form(Struct, frozen=True):
    """A sheet of a menu: its name, its headings in their order, and those that it can't do without.

    `words` are what people write for a heading in English, German, French, Spanish, Italian, Dutch and Portuguese.
    """

    name: str
    columns: tuple[str, ...]
    required: frozenset[str]
    words: Mapping[str, str]

    def likely(self, name: str, among: Sequence[str]) -> str | None:
        """Return the column of `among` that a heading probably means, which isn't one itself; None if none is near."""
        plain = _plain(name)
        column = self.words.get(plain, plain)
        return column if column in among else nearest(name, among)

    def knows(self, name: str) -> bool:
        """Return whether a heading is a column, or probably means one."""
        return name in self.columns or self.likely(name, self.columns) is not None


def nearest(name: str, known: Sequence[str]) -> str | None:
    """Return the known name that is most like one, if any is."""
    return next(iter(get_close_matches(name[:100], known, n=1, cutoff=CLOSE)), None)


_UNIT: Final = re.compile(r"\([^()]*\)|\[[^\[\]]*\]|\b(?:in|en|pro)? ?(?:[€£$¥]|(?:eur|usd|gbp|chf)\b)")
"""What stands beside a heading's word: a remark in brackets, or a currency."""


def _plain(name: str) -> str:
    """Return a heading as words are compared: without accents, and without what stands beside it."""
    letters = unicodedata.normalize("NFKD", _UNIT.sub(" ", name[:100]).casefold())
    text = "".join(letter for letter in letters if not unicodedata.combining(letter))
    return " ".join(re.sub(r"[_\-/.:]", " ", text).split())


def _words(**of: str) -> dict[str, str]:
    return {_plain(word): column for column, words in of.items() for word in words.split(", ")}


_PRICE: Final = (
    "price, unit price, base price, sales price, selling price, amount, cost, preis, verkaufspreis, "
    "einzelpreis, grundpreis, aufpreis, vk, betrag, prix, prix unitaire, prix de vente, tarif, "
    "montant, supplément, precio, precio unitario, precio de venta, importe, prezzo, prezzo unitario, "
    "costo, prijs, verkoopprijs, stukprijs, bedrag, meerprijs, preço, preço unitário, valor"
)

MENU: Final = Form(
    "menu",
    ("section", "item", "description", "price", "choices", "available", "image"),
    frozenset(("item", "price")),
    _words(
        section="category, menu section, course, kategorie, rubrik, bereich, abschnitt, warengruppe, catégorie, "
        "rubrique, categoría, sección, categoria, sezione, portata, categorie, rubriek, sectie, seção, "
        "secção",
        item="name, title, dish, dish name, product, product name, item name, menu item, article, artikel, "
        "artikelname, gericht, speise, produkt, produktname, bezeichnung, plat, produit, nom, nom du "
        "produit, désignation, intitulé, artículo, plato, producto, nombre, articolo, piatto, prodotto, "
        "nome, gerecht, naam, productnaam, artigo, prato, produto",
        description="details, beschreibung, descripción, descrizione, omschrijving, beschrijving, descrição",
        price=_PRICE,
        choices="options, modifiers, modifier groups, extras, add ons, optionen, auswahl, varianten, choix, "
        "suppléments, opciones, modificadores, scelte, opzioni, varianti, aggiunte, opties, keuzes, "
        "opções, escolhas",
        available="availability, in stock, active, verfügbar, verfügbarkeit, aktiv, lieferbar, disponible, "
        "disponibilité, disponibilidad, disponibile, disponibilità, beschikbaar, beschikbaarheid, "
        "disponível",
        image="picture, photo, image url, picture url, photo url, bild, foto, imagen, immagine, afbeelding, imagem",
    ),
)
CHOICES: Final = Form(
    "choices",
    ("group", "minimum", "maximum", "free", "option", "price"),
    frozenset(("group", "option")),
    _words(
        group="modifier group, option group, choice group, gruppe, groupe, grupo, gruppo, groep",
        minimum="min, mindestens, mínimo, minimo",
        maximum="max, höchstens, máximo, massimo",
        free="included, frei, gratis, kostenlos, inklusive, gratuit, inclus, incluido, incluidos, inclusi, inbegrepen",
        option="choice, modifier, name, auswahl, wahl, choix, opción, opzione, scelta, optie, keuze, opção",
        price=_PRICE,
    ),
)
