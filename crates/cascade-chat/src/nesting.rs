//! Templates whose code is nested too deep to be compiled, found before that is tried.

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;

/// Operators, brackets and names that may hang together in one expression, and branches of one
/// `{% if %}`.
const DEEPEST: usize = 400;

/// Checks that no expression and no condition of a template is nested too deep, as
/// `a.b.c.…`, `not not …` or `1 + 1 + …` can be. Errors of syntax are left to the compiler.
///
/// # Errors
/// The line.
pub(crate) fn check(source: &str, syntax: &SyntaxConfig) -> Result<(), usize> {
    let mut links = vec![0];
    let mut branches = Vec::new();
    let mut starts = false;
    for token in tokenize(source, false, syntax.clone()) {
        let Ok((token, span)) = token else {
            return Ok(());
        };
        match &token {
            Token::Ident(name) if starts => count_branches(&mut branches, name),
            _ => follow(&mut links, &token),
        }
        starts = matches!(token, Token::BlockStart);
        let deepest = branches.last().copied().max(Some(links.iter().sum()));
        if deepest > Some(DEEPEST) {
            return Err(usize::from(span.start_line));
        }
    }
    Ok(())
}

fn count_branches(branches: &mut Vec<usize>, tag: &str) {
    match tag {
        "if" => branches.push(1),
        "elif" => branches.iter_mut().last().map_or((), |count| *count += 1),
        "endif" => drop(branches.pop()),
        _ => {}
    }
}

/// Counts what hangs together, in each of the brackets that are open.
fn follow(links: &mut Vec<usize>, token: &Token) {
    let last = links.len() - 1;
    match token {
        Token::TemplateData(_) | Token::VariableStart | Token::BlockStart => *links = vec![0],
        Token::ParenOpen | Token::BracketOpen | Token::BraceOpen => {
            links[last] += 1;
            links.push(0);
        }
        Token::ParenClose | Token::BracketClose | Token::BraceClose => {
            if last > 0 {
                links.pop();
            }
        }
        Token::Comma | Token::Colon | Token::Assign => links[last] = 0,
        Token::Ident("and" | "or" | "not" | "if" | "else" | "is" | "in") => links[last] += 1,
        Token::Ident(_)
        | Token::Str(_)
        | Token::String(_)
        | Token::Int(_)
        | Token::Int128(_)
        | Token::Float(_)
        | Token::VariableEnd
        | Token::BlockEnd => {}
        _ => links[last] += 1,
    }
}
