//! Charts: a panel for each cell, a dot at each median, and a whisker from quartile to quartile.
//!
//! Colours come from a style sheet inside the picture, which asks whether the reader prefers light or dark.

use std::fmt::Write;

use crate::cells::{NAIVE, RING, SPSC, TWIN, Topic};
use crate::report_entry::short;
use crate::session::Measured;
use crate::statistics::Summary;

/// A picture in a file.
#[derive(Debug)]
pub(crate) struct Chart {
    pub(crate) file: String,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// Which cells go together into one picture.
struct Group {
    file: &'static str,
    title: &'static str,
    holds: fn(Topic, usize) -> bool,
}

const GROUPS: [Group; 5] = [
    Group {
        file: "bench-ring-items-32.svg",
        title: "Item by item, 32 bytes, M items/s",
        holds: |topic, bytes| topic == Topic::OneByOne && bytes == 32,
    },
    Group {
        file: "bench-ring-items-8.svg",
        title: "Item by item, 8 bytes, M items/s",
        holds: |topic, bytes| topic == Topic::OneByOne && bytes == 8,
    },
    Group {
        file: "bench-ring-batches.svg",
        title: "Batches of 16, M items/s",
        holds: |topic, _| topic == Topic::Batches,
    },
    Group {
        file: "bench-ring-stages.svg",
        title: "Submit, trigger and pop, M items/s",
        holds: |topic, _| topic == Topic::ThreeStage,
    },
    Group {
        file: "bench-ring-times.svg",
        title: "Round trips, completion, and one thread, ns",
        holds: |topic, _| topic.has_peers() && !topic.is_rate(),
    },
];

/// The charts of all cells that have something to show.
pub(crate) fn charts(cells: &[Measured]) -> Vec<Chart> {
    GROUPS
        .iter()
        .filter_map(|group| {
            let panels: Vec<Panel> = cells
                .iter()
                .filter(|cell| (group.holds)(cell.key.topic, cell.key.bytes))
                .filter_map(panel)
                .collect();
            (!panels.is_empty()).then(|| Chart {
                file: group.file.to_owned(),
                title: group.title.to_owned(),
                svg: draw(group.title, &panels),
            })
        })
        .collect()
}

struct Panel {
    title: String,
    /// Best first.
    rows: Vec<(&'static str, Summary)>,
}

fn panel(cell: &Measured) -> Option<Panel> {
    let mut rows: Vec<(&'static str, Summary)> = cell
        .rows
        .iter()
        .filter_map(|row| Some((row.name, Summary::of(&row.samples)?)))
        .collect();
    rows.sort_by(|a, b| a.1.median.total_cmp(&b.1.median));
    let key = cell.key;
    if key.topic.is_rate() {
        rows.reverse();
    }
    let title = match key.topic {
        Topic::OneByOne | Topic::ThreeStage => format!("capacity {}", key.capacity),
        Topic::Batches => format!("{} bytes, capacity {}", key.bytes, key.capacity),
        Topic::RoundTrip => "there and back over two queues".to_owned(),
        Topic::Completion => "submission to completion seen".to_owned(),
        Topic::Single => format!("push and pop, {} bytes", key.bytes),
        Topic::Choices | Topic::ChoicesTrip | Topic::Word => key.to_string(),
    };
    (!rows.is_empty()).then_some(Panel { title, rows })
}

const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = 320.0;
const LABELS: f64 = 112.0;
const VALUES: f64 = 44.0;
const ROW: f64 = 17.0;
const HEAD: f64 = 26.0;
const FOOT: f64 = 34.0;
const MARGIN: f64 = 16.0;
const TITLE: f64 = 34.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}\
.title{font-size:16px;font-weight:600}.head{font-weight:600}.tick{font-size:10px;fill:#59636e}\
.paper{fill:#ffffff}.grid{stroke:#d1d9e0;stroke-width:1}\
.peer{fill:#3b6ea5;stroke:#3b6ea5}.twin{fill:#9db8d6;stroke:#9db8d6}\
.control{fill:#818b98;stroke:#818b98}.ours{fill:#c2410c;stroke:#c2410c}text.ours{stroke:none;font-weight:600}\
line.whisker{stroke-width:3;stroke-opacity:.45}\
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.tick{fill:#9198a1}.paper{fill:#0d1117}.grid{stroke:#3d444d}\
.peer{fill:#79b8ff;stroke:#79b8ff}.twin{fill:#4a6d94;stroke:#4a6d94}\
.control{fill:#8b949e;stroke:#8b949e}.ours{fill:#ff9b5e;stroke:#ff9b5e}text.ours{fill:#ff9b5e}}";

fn draw(title: &str, panels: &[Panel]) -> String {
    let most_rows = panels.iter().map(|panel| panel.rows.len()).max();
    let panel_height = HEAD + most_rows.unwrap_or(0) as f64 * ROW + FOOT;
    let columns = panels.len().min(COLUMNS);
    let width = columns as f64 * PANEL_WIDTH + 2.0 * MARGIN;
    let height = TITLE + panels.len().div_ceil(columns) as f64 * panel_height + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{0}\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"24\">{0}</text>\n",
        escaped(title)
    );
    for (index, panel) in panels.iter().enumerate() {
        let x = MARGIN + (index % columns) as f64 * PANEL_WIDTH;
        let y = TITLE + (index / columns) as f64 * panel_height;
        draw_panel(&mut svg, panel, x, y);
    }
    svg.push_str("</svg>\n");
    svg
}

fn draw_panel(svg: &mut String, panel: &Panel, x: f64, y: f64) {
    let greatest = panel
        .rows
        .iter()
        .map(|(_, summary)| summary.upper)
        .fold(0.0, f64::max);
    let step = tick_step(greatest);
    let end = (greatest / step).ceil() * step;
    let (left, span) = (x + LABELS, PANEL_WIDTH - LABELS - VALUES - MARGIN);
    let at = |value: f64| left + value / end * span;
    let (top, bottom) = (y + HEAD, y + HEAD + panel.rows.len() as f64 * ROW);
    let _ = writeln!(
        svg,
        "<text class=\"head\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
        y + 16.0,
        escaped(&panel.title)
    );
    let mut tick = 0.0;
    while tick <= end * 1.001 {
        let place = at(tick);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{place:.1}\" x2=\"{place:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>\
             <text class=\"tick\" text-anchor=\"middle\" x=\"{place:.1}\" y=\"{:.1}\">{tick}</text>",
            bottom + 12.0
        );
        tick += step;
    }
    for (index, (name, summary)) in panel.rows.iter().enumerate() {
        let line = top + (index as f64 + 0.5) * ROW;
        let class = class_of(name);
        let _ = writeln!(
            svg,
            "<text class=\"{class}-name{}\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <line class=\"whisker {class}\" x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{line:.1}\" y2=\"{line:.1}\"/>\
             <circle class=\"{class}\" cx=\"{:.1}\" cy=\"{line:.1}\" r=\"3.5\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            if class == "ours" { " ours" } else { "" },
            left - 8.0,
            line + 4.0,
            escaped(name),
            at(summary.lower),
            at(summary.upper),
            at(summary.median),
            left + span + 8.0,
            line + 4.0,
            short(summary.median)
        );
    }
}

fn class_of(name: &str) -> &'static str {
    match name {
        SPSC | RING => "ours",
        TWIN => "twin",
        NAIVE => "control",
        _ => "peer",
    }
}

/// 1, 2 or 5 times a power of ten, so that two to five steps reach the value.
fn tick_step(greatest: f64) -> f64 {
    let rough = greatest.max(1e-9) / 4.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|step| step * power >= rough);
    step.unwrap_or(10.0) * power
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cells::{Key, RTRB};
    use crate::session::Row;

    fn cell(topic: Topic, rows: &[(&'static str, f64)]) -> Measured {
        let row = |&(name, value): &(&'static str, f64)| Row {
            name,
            way: "",
            samples: vec![value; 9],
        };
        Measured {
            key: Key {
                topic,
                bytes: 32,
                capacity: 64,
            },
            rows: rows.iter().map(row).collect(),
        }
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("a<b & \"c\">"), "a&lt;b &amp; &quot;c&quot;&gt;");
    }

    #[test]
    fn the_best_row_comes_first() {
        let rows = [(RTRB, 50.0), (SPSC, 100.0)];
        let rate = panel(&cell(Topic::OneByOne, &rows)).expect("has rows");
        assert_eq!(rate.rows[0].0, SPSC);
        let time = panel(&cell(Topic::RoundTrip, &rows)).expect("has rows");
        assert_eq!(time.rows[0].0, RTRB);
    }

    #[test]
    fn a_chart_for_each_group_with_something_in_it() {
        let rows = [(RTRB, 50.0), (SPSC, 100.0)];
        let cells = [
            cell(Topic::OneByOne, &rows),
            cell(Topic::Single, &rows),
            cell(Topic::Batches, &[]),
        ];
        let charts = charts(&cells);
        let files: Vec<&str> = charts.iter().map(|chart| chart.file.as_str()).collect();
        assert_eq!(files, ["bench-ring-items-32.svg", "bench-ring-times.svg"]);
        for chart in &charts {
            assert_eq!(chart.svg.matches("<circle").count(), 2);
            assert!(chart.svg.ends_with("</svg>\n") && !chart.svg.contains("NaN"));
        }
    }

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!(tick_step(190.0), 50.0);
        assert_eq!(tick_step(100.0), 50.0);
        assert_eq!(tick_step(8.0), 2.0);
        assert_eq!(tick_step(3.9), 1.0);
    }
}
