"""The project's documentation: what it is worth for planning, and its renewal by the Initializer.

It is believed by its evidence alone: hashes and fingerprint are computed anew each time.
"""

from __future__ import annotations

from interlock.contracts import Outcome
from interlock.documents import stamp
from interlock.engine import Dispatch, Report, Run
from interlock.playbooks.ticket import briefs
from interlock.playbooks.ticket.analysis import (
    CACHE,
    DOCS,
    MANIFESTS,
    NOT_LISTED,
    DocsState,
    architecture_relevant,
    cache_rule,
    docs_state,
    fingerprint,
)
from interlock.playbooks.ticket.documents import Phase, commit_message
from interlock.playbooks.ticket.ledger import Ledger, data_of, digest_of, failure


async def digests_of(run: Run) -> dict[str, str]:
    return {path: (await run.read(path)).digest for path in DOCS}


async def workspace_fingerprint(run: Run) -> str:
    digests = {path: await run.read(path, digest_of) for path in await run.repository.tracked(MANIFESTS)}
    return fingerprint(await run.repository.listing(NOT_LISTED), digests)


async def weigh_docs(run: Run) -> DocsState:
    """Whether the documentation can be trusted."""
    return docs_state(await digests_of(run), await data_of(run, CACHE), await workspace_fingerprint(run))


async def refresh_brief(ledger: Ledger, mode: str) -> Dispatch:
    """What the Initializer is asked: the documents that are not valid by today's hashes and fingerprint.

    A document that the user has changed and not committed is the user's to renew.
    """
    run = ledger.run
    now, digests = await workspace_fingerprint(run), await digests_of(run)
    state = docs_state(digests, await data_of(run, CACHE), now)
    ours = {path for path, digest in ledger.docs_written.items() if digests.get(path) == digest}
    changed = set(await run.repository.changed()) - ours
    renew = [path for path in state.renew if path not in changed or not digests[path]]
    return ledger.briefs.initializer(mode, renew, fingerprint=now, digests=digests)


async def take_docs(ledger: Ledger, report: Report) -> None:
    """Take the refreshed documentation for what it is worth now; a refresh that failed is a warning."""
    run, digests = ledger.run, await digests_of(ledger.run)
    taken = () if report.conflicts else [path for path in DOCS if path in report.changes]
    written = {**ledger.docs_written, **{path: report.artifacts[path] for path in taken if path in report.artifacts}}
    if report.outcome is not Outcome.OK:
        run.warn(f"the documentation was not refreshed: {failure('Initializer', report, CACHE)}")
        await ledger.change({("docs_written",): written})
        return
    now = await workspace_fingerprint(run)
    if why := cache_rule(now, {}).problem((await run.read(CACHE)).text):
        run.warn(f"{CACHE}: {why}")
    state = docs_state(digests, await data_of(run, CACHE), now)
    await ledger.change(
        {
            ("docs_trusted_for_planning",): state.trusted,
            ("trust_status",): state.trust.value,
            ("startup", "docs_state", "docs_trusted_for_planning"): state.trusted,
            ("startup", "docs_state", "refresh_required"): not state.trusted,
            ("startup", "updated_at"): stamp(run.now()),
            ("docs_written",): written,
            ("docs_refreshed",): True,
        }
    )


async def refresh_docs(ledger: Ledger, before: str) -> None:
    """O7: documentation that the work since that commit made out of date is renewed; whatever comes of it, the work
    stays accepted."""
    run = ledger.run
    if ledger.phase is not Phase.DOC_REFRESH:
        await ledger.enter(Phase.DOC_REFRESH, "O7")
    changed = await run.repository.changes_since(before) if before and before != ledger.head else []
    relevant = architecture_relevant(changed) or (not before and bool(ledger.head))
    needed = relevant or not ledger.data["docs_trusted_for_planning"]
    if needed:
        await take_docs(ledger, await ledger.ask(await refresh_brief(ledger, briefs.INCREMENTAL)))
    ledger.log("docs.refresh", ran=needed, architecture_relevant=relevant)
    if paths := await refreshed_docs(ledger):
        slug = str(ledger.data["slug"])
        message = commit_message(ledger.message_template(), ledger.ticket, None, slug, "refresh documentation")
        done = await run.repository.commit(paths, message)
        if not done.ok:
            run.warn(f"the refreshed documentation was not committed: {done.problem}")
        ledger.head = done.commit or ledger.head
    await ledger.publish()


async def refreshed_docs(ledger: Ledger) -> list[str]:
    """The uncommitted documents that are as the Initializer left them; what the user changed is the user's."""
    if not ledger.data.get("docs_refreshed"):
        return []
    run, written = ledger.run, ledger.docs_written
    changed = set(await run.repository.changed()) - set(ledger.listed("carried_files"))
    return [path for path in DOCS if path in changed and written.get(path) == await run.read(path, digest_of)]
