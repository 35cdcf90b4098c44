"""Certification: reports of `mercato certify`, uploaded and shown with each check."""

import asyncio
from typing import Annotated, Final
from uuid import UUID

from msgspec import Meta

from mercato.console.screen import MERCHANTS, Done, Page, Question, Screens, Visit
from mercato.features.certification import queries
from mercato.features.certification.report import UnreadableReportError, Verified, public_keys, verify
from mercato.features.sign_in.roles import Permission
from mercato.platform.db.audit import audit
from mercato.platform.errors import NotFound
from mercato_contract.certification import Report, count
from mercato_contract.refusals import ValidationFailed
from mercato_contract.wire import Wire

screens: Final = Screens(MERCHANTS, whole_account=True)

CERTIFICATION: Final = "/console/certification"

MAX_REPORT: Final = 384 * 1024
"""Characters of an uploaded report: twice those of the largest that the certifier wrote of the sandbox."""

MAX_UPLOAD: Final = 512 * 1024
"""Bytes of the form with a report."""

MAX_CHECKS: Final = 200
"""Checks of a report that is shown."""

_KINDS: Final = ("merchant", "storefront")


class UploadForm(Wire):
    """A report as a file, or pasted."""

    file: Annotated[str, Meta(max_length=MAX_REPORT)] = ""
    report: Annotated[str, Meta(max_length=MAX_REPORT)] = ""


class ReportQuery(Wire):
    """`check` is the number of the check whose requests and responses are shown."""

    check: Annotated[int, Meta(ge=0, le=MAX_CHECKS - 1)] | None = None


@screens.get("certification")
async def list_reports(visit: Visit) -> Page:
    async with visit.app.db.read() as tx:
        found = await queries.list_reports(tx, _partner_id(visit))
    values = {"reports": found, "most": queries.MAX_KEPT, "max_report": MAX_REPORT}
    return Page("certification.html", "Certification", values)


@screens.post("certification", needs=Permission.CERTIFY, max_form=MAX_UPLOAD)
async def upload_report(visit: Visit) -> Done:
    app, partner_id = visit.app, _partner_id(visit)
    # A large report takes longer than a request may hold up others.
    report, verified = await asyncio.to_thread(_uploaded, visit)
    report_id, now = app.new_id(), app.clock()
    async with app.db.write() as tx:
        size = await queries.add_report(
            tx,
            partner_id,
            report,
            new_id=report_id,
            fingerprint=verified.fingerprint,
            trusted=verified.is_trusted,
            now=now,
        )
        await app.quota.take(tx, partner_id, size, now=now)
        await audit(tx, "report", report_id, partner_id=partner_id, detail={"kind": report.kind})
    return Done("The report was uploaded.", to=f"{CERTIFICATION}/{report_id}")


@screens.get("certification/{report}")
async def show_report(visit: Visit) -> Page:
    query = visit.filters(ReportQuery)
    async with visit.app.db.read() as tx:
        found = await queries.find_report(tx, _partner_id(visit), visit.ids["report"])
    if found is None:
        raise _missing()
    uploaded, report = found
    check = None
    if query.check is not None:
        if query.check >= len(report.checks):
            raise NotFound("The report has no such check.")
        check = report.checks[query.check]
    values = {"uploaded": uploaded, "report": report, "check": check}
    return Page("report.html", f"Report of a {report.kind}", values)


async def _ask_to_delete(visit: Visit) -> Question:
    back = f"{CERTIFICATION}/{visit.ids['report']}"
    return Question("Delete the report?", "It is permanently deleted from this service.", back=back)


@screens.post("certification/{report}/delete", needs=Permission.CERTIFY, ask=_ask_to_delete)
async def delete_report(visit: Visit) -> Done:
    report_id, partner_id = visit.ids["report"], _partner_id(visit)
    async with visit.app.db.write() as tx:
        if not await queries.delete_report(tx, partner_id, report_id):
            raise _missing()
        await audit(tx, "report", report_id, partner_id=partner_id, detail={"deleted": True})
    return Done("The report was deleted.", to=CERTIFICATION)


def _partner_id(visit: Visit) -> UUID:
    partner = visit.session.partner
    assert partner is not None, "a screen of merchants"
    return partner.id


def _missing() -> NotFound:
    return NotFound("This account has no such report. It may have been deleted or replaced by newer ones.")


def _uploaded(visit: Visit) -> tuple[Report, Verified]:
    """Return the report that was sent, and how it was verified. Raises InvalidRequest, ValidationFailed."""
    form = visit.fields(UploadForm)
    if not (form.file or form.report):
        raise ValidationFailed.at("/file", "No report was sent. Choose its file, or paste what is in it.")
    verified = _verified(form.file or form.report, public_keys(visit.app.vault))
    return _checked(verified), verified


def _verified(text: str, trusted: tuple[str, ...]) -> Verified:
    try:
        return verify(text.encode("utf-8", "replace"), trusted=trusted)
    except UnreadableReportError as unreadable:
        raise _refused(str(unreadable)) from None


def _checked(verified: Verified) -> Report:
    """Return the report of a right signature that says what its checks say. Raises ValidationFailed."""
    report = verified.report
    if report is None:
        raise _refused(
            f"It was changed after it was signed, or another key than {verified.fingerprint} signed it."
        )
    if report.kind not in _KINDS:
        raise _refused(f"Its kind is neither {' nor '.join(_KINDS)}.")
    if not report.target.isprintable():
        raise _refused("The name of its target has characters that nobody sees.")
    if len(report.checks) > MAX_CHECKS:
        raise _refused(f"It has more than {MAX_CHECKS} checks.")
    if report.counts != count(report.checks):
        raise _refused("Its counts differ from its checks.")
    return report


def _refused(reason: str) -> ValidationFailed:
    return ValidationFailed.at(
        "/report",
        f"The report wasn't accepted. {reason} Upload the whole file that `mercato certify --report` wrote.",
    )
