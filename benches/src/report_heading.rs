//! What stands above a report: where it comes from, and what to make of it.

/// What stands above everything.
pub(crate) struct Heading<'a> {
    pub(crate) facts: &'a [(&'a str, String)],
    pub(crate) command: &'a str,
    pub(crate) busy: bool,
    pub(crate) smoke: bool,
}

pub(crate) fn warnings(text: &mut String, heading: &Heading<'_>) {
    if heading.smoke {
        text.push_str(
            "**A smoke run: it shows that everything runs, and its numbers say nothing.**\n\n",
        );
    }
    if heading.busy {
        text.push_str(
            "**The machine was busy when this run began: take it for a sample of the report, and for no measurement.**\n\n",
        );
    }
}
