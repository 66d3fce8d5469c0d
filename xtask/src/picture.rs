//! The picture in the README: the demo's output, drawn as an SVG that looks like a terminal.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::process::{CommandLine, workspace_root};

/// The path of the picture.
const PATH: &str = "docs/demo.svg";

/// How many columns and lines of the output are shown.
const COLUMNS: usize = 118;
const LINES: usize = 34;

/// The size of a character, in the units of the picture.
const WIDTH: usize = 8;
const HEIGHT: usize = 18;

/// Runs the demo and draws what it prints.
///
/// # Errors
/// If the demo fails, or the picture cannot be written.
pub(crate) fn run() -> Result<()> {
    let demo = ["run", "--quiet", "--package", "sample-controller", "--", "--exit"];
    let output = CommandLine::new("cargo", &demo).capture()?;
    let path = workspace_root()?.join(PATH);
    fs::write(&path, draw(&output)).with_context(|| format!("cannot write {PATH}"))?;
    println!("{PATH} shows the output of today");
    Ok(())
}

fn draw(output: &str) -> String {
    let lines: Vec<String> = output.lines().flat_map(wrap).take(LINES).collect();
    let (width, height) = ((COLUMNS + 4) * WIDTH, (lines.len() + 3) * HEIGHT);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"ui-monospace, Menlo, Consolas, monospace\" font-size=\"13\">\n\
         <title>The output of cargo run -p sample-controller</title>\n\
         <rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"#0d1117\"/>\n"
    );
    let mut text = |row: usize, color: &str, line: &str| {
        let (x, y) = (2 * WIDTH, (row + 2) * HEIGHT);
        let _ = writeln!(
            svg,
            "<text x=\"{x}\" y=\"{y}\" fill=\"{color}\" xml:space=\"preserve\">{}</text>",
            escape(line)
        );
    };
    text(0, "#7ee787", "$ cargo run -p sample-controller");
    for (row, line) in lines.iter().enumerate() {
        // Headings begin at the margin.
        let color = if line.starts_with(' ') { "#c9d1d9" } else { "#79c0ff" };
        text(row + 1, color, line);
    }
    svg.push_str("</svg>\n");
    svg
}

/// Breaks a line between words; continuation lines are indented further.
fn wrap(line: &str) -> Vec<String> {
    let indent = line.len() - line.trim_start().len();
    let mut lines = vec![" ".repeat(indent)];
    for word in line.split_whitespace() {
        let last = lines.last_mut().expect("there must be a line");
        let is_empty = last.trim().is_empty();
        if !is_empty && last.chars().count() + 1 + word.chars().count() > COLUMNS {
            lines.push(format!("{}{word}", " ".repeat(indent + 4)));
        } else {
            if !is_empty {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn escape(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_broken_between_words_and_nothing_is_lost() {
        let line = format!("   {}", "word ".repeat(60).trim_end());
        let lines = wrap(&line);
        assert_eq!(lines.len(), 3);
        assert!(lines.iter().all(|line| line.len() <= COLUMNS), "{lines:?}");
        assert!(lines[0].starts_with("   word") && lines[1].starts_with("       word"));
        assert_eq!(lines.join(" ").split_whitespace().count(), 60);
    }

    #[test]
    fn picture_is_valid_where_the_output_has_markup() {
        assert!(draw("a <b> & c").contains(">a &lt;b&gt; &amp; c</text>"));
    }
}
