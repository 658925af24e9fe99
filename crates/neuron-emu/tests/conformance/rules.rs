//! Rules that one call alone does not show.
