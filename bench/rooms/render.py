"""Pages: a template, the values of a document, and what a judge said of it. A template is plain text. `{{name}}` is a value by that name, or
of the document, as `{{settings.topics}}`. Lines from `{{?name}}` to `{{/name}}` are left out where the value is empty. A value of several
lines stands alone on its line."""

import re

from bench.rooms import noise

NAME = re.compile(r"\{\{([a-z][\w.]*)\}\}")
SECTION = re.compile(r"^\{\{\?([\w.]+)\}\}\n(.*?)^\{\{/\1\}\}\n", re.MULTILINE | re.DOTALL)
KEPT_AWAKE = ("Processors are kept awake as by `realtime.awake`: the kernel polls instead of halting them, or, where it cannot, threads of "
              "SCHED_IDLE spin.")


class Unknown(Exception):
    """A template asks for what nobody gave."""


def page(template, document, values, verdicts, age=""):
    """The page of a document. What a person has to say of a measurement may stand in it as `remark`."""
    common = {"head": head(document, age), "remark": document.get("remark"), "verdicts": judged(verdicts), "kept_awake": KEPT_AWAKE,
              "realtime_limit": realtime_limit(document["realtime_limit_us"])}
    return fill(template, document, common | values)


def fill(template, document, values):
    def value(name):
        found = {**document, **values}
        for part in name.split("."):
            if not isinstance(found, dict) or part not in found:
                raise Unknown(f"the template asks for {name}")
            found = found[part]
        return found

    def text(match):
        found = value(match.group(1))
        if found is None:
            return ""
        return "\n".join(found) if isinstance(found, list) else str(found)

    filled = template
    # Sections may stand in sections.
    while SECTION.search(filled):
        filled = SECTION.sub(lambda match: match.group(2) if value(match.group(1)) else "", filled)
    filled = NAME.sub(text, filled)
    return re.sub(r"\n{3,}", "\n\n", filled).strip() + "\n"


def head(document, age=""):
    """Command, commit, state of the work tree, machine, date."""
    tree = "with changes in the work tree that are not in it" if document["dirty"] else "work tree unchanged"
    virtual = ", a shared virtual machine" if document["machine"]["virtual"] else ""
    lines = [f"Command: `{document['command']}`. Commit {document['commit']}, {tree}. Measured {document['date'][:10]}.",
             f"Machine: {machine(document['machine'])}{virtual}; the hypervisor took {100 * document['stolen_share']:.1f} % of its processors "
             "meanwhile."]
    return " ".join([*lines, *([age] if age else [])])


def machine(found):
    return f"{found['processors']} processors ({found['model']}), {found['architecture']}, {found['kernel']}"


def realtime_limit(limit):
    """A sentence."""
    if limit is None:
        return "How much of each second Linux leaves real-time threads is not known."
    if limit == "-1":
        return "`kernel.sched_rt_runtime_us` is -1, as `verge doctor` advises."
    return f"Linux leaves real-time threads {limit} us of each second (`kernel.sched_rt_runtime_us`; `verge doctor` advises -1)."


def judged(verdicts):
    """Lines: every target with its figure."""
    if not verdicts:
        return []
    loud = lambda outcome: f"**{outcome}**" if outcome == noise.MISSED else outcome
    return ["| target | measured | |", "|---|---|---|",
            *(f"| {one.target} | {one.figure} | {loud(one.outcome)}{', ' + one.remark if one.remark else ''} |" for one in verdicts)]
