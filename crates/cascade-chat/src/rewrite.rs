//! Templates whose operators are charged: the tree of a template with calls of [`crate::operators`]
//! where the library would work without counting.

use minijinja::machinery::Span;
use minijinja::machinery::ast::{self, BinOpKind, CallArg, Expr, Spanned, Stmt};
use minijinja::value::Value;

use crate::operators as names;

/// A variable that no template can name.
const CAPTURED: &str = "captured, for a namespace";

/// A node of the tree: its kind, where it stands, and its parts.
macro_rules! node {
    ($tree:ident::$kind:ident($span:expr) { $($field:ident: $value:expr),* $(,)? }) => {
        $tree::$kind(Spanned::new(ast::$kind { $($field: $value),* }, $span))
    };
}

/// The template with all of its costly operations charged.
pub(crate) fn template<'a>(template: &Stmt<'a>) -> Stmt<'a> {
    match template {
        Stmt::Template(node) => node!(Stmt::Template(node.span()) {
            children: body(&node.children),
        }),
        other => node!(Stmt::Template(Span::default()) { children: statement(other) }),
    }
}

fn body<'a>(statements: &[Stmt<'a>]) -> Vec<Stmt<'a>> {
    statements.iter().flat_map(statement).collect()
}

/// A statement; several where it has to be paid for, or sets an attribute.
fn statement<'a>(stmt: &Stmt<'a>) -> Vec<Stmt<'a>> {
    match stmt {
        Stmt::Template(node) => body(&node.children),
        Stmt::SetBlock(node) => set_block(node),
        Stmt::Macro(node) => {
            let declaration = Stmt::Macro(Spanned::new(macro_of(node), node.span()));
            vec![pay_for_macro(node.span()), declaration]
        }
        Stmt::CallBlock(node) => {
            let call = ast::CallBlock {
                call: Spanned::new(call(&node.call), node.call.span()),
                macro_decl: Spanned::new(macro_of(&node.macro_decl), node.macro_decl.span()),
            };
            let call = Stmt::CallBlock(Spanned::new(call, node.span()));
            vec![pay_for_macro(node.span()), call]
        }
        // Raw text is written as values are, and so is counted.
        Stmt::EmitRaw(node) => {
            let raw = constant(Value::from(node.raw), node.span());
            vec![emit(raw, node.span())]
        }
        Stmt::EmitExpr(node) => vec![emit(expression(&node.expr), node.span())],
        Stmt::Set(node) => vec![set(&node.target, expression(&node.expr), node.span())],
        Stmt::Continue(node) => vec![Stmt::Continue(Spanned::new(ast::Continue, node.span()))],
        Stmt::Break(node) => vec![Stmt::Break(Spanned::new(ast::Break, node.span()))],
        Stmt::Do(node) => {
            let call = Spanned::new(call(&node.call), node.call.span());
            vec![node!(Stmt::Do(node.span()) { call: call })]
        }
        // What is imported was refused before it comes to this.
        other => block(other).into_iter().collect(),
    }
}

/// A statement around others.
fn block<'a>(stmt: &Stmt<'a>) -> Option<Stmt<'a>> {
    Some(match stmt {
        Stmt::ForLoop(node) => Stmt::ForLoop(Spanned::new(for_loop(node), node.span())),
        Stmt::IfCond(node) => node!(Stmt::IfCond(node.span()) {
            expr: expression(&node.expr),
            true_body: body(&node.true_body),
            false_body: body(&node.false_body),
        }),
        Stmt::WithBlock(node) => Stmt::WithBlock(Spanned::new(with_block(node), node.span())),
        Stmt::AutoEscape(node) => node!(Stmt::AutoEscape(node.span()) {
            enabled: expression(&node.enabled),
            body: body(&node.body),
        }),
        Stmt::FilterBlock(node) => node!(Stmt::FilterBlock(node.span()) {
            filter: expression(&node.filter),
            body: body(&node.body),
        }),
        Stmt::Block(node) => node!(Stmt::Block(node.span()) {
            name: node.name,
            required: node.required,
            body: body(&node.body),
        }),
        _ => return None,
    })
}

fn with_block<'a>(node: &ast::WithBlock<'a>) -> ast::WithBlock<'a> {
    let assignments = node.assignments.iter();
    ast::WithBlock {
        assignments: assignments
            .map(|(to, value)| (target(to), expression(value)))
            .collect(),
        body: body(&node.body),
    }
}

fn emit<'a>(expr: Expr<'a>, span: Span) -> Stmt<'a> {
    node!(Stmt::EmitExpr(span) { expr: expr })
}

fn for_loop<'a>(node: &ast::ForLoop<'a>) -> ast::ForLoop<'a> {
    ast::ForLoop {
        target: target(&node.target),
        iter: charged(names::LOOPED, expression(&node.iter)),
        filter_expr: node.filter_expr.as_ref().map(expression),
        recursive: node.recursive,
        body: body(&node.body),
        else_body: body(&node.else_body),
    }
}

/// What is assigned to: names, and lists of them.
fn target<'a>(to: &Expr<'a>) -> Expr<'a> {
    match to {
        Expr::List(node) => node!(Expr::List(node.span()) {
            items: node.items.iter().map(target).collect(),
        }),
        other => expression(other),
    }
}

/// An assignment; to an attribute, by the function that checks what is assigned.
fn set<'a>(to: &Expr<'a>, value: Expr<'a>, span: Span) -> Stmt<'a> {
    let Expr::GetAttr(attribute) = to else {
        let target = target(to);
        return node!(Stmt::Set(span) { target: target, expr: value });
    };
    let arguments = vec![
        expression(&attribute.expr),
        constant(Value::from(attribute.name), span),
        value,
    ];
    run(names::SET_ATTRIBUTE, arguments, span)
}

fn set_block<'a>(node: &Spanned<ast::SetBlock<'a>>) -> Vec<Stmt<'a>> {
    let span = node.span();
    let is_attribute = matches!(node.target, Expr::GetAttr(_));
    let captured = || node!(Expr::Var(span) { id: CAPTURED });
    let capture = node!(Stmt::SetBlock(span) {
        target: if is_attribute {
                captured()
            } else {
                target(&node.target)
            },
        filter: node.filter.as_ref().map(expression),
        body: body(&node.body),
    });
    if is_attribute {
        vec![capture, set(&node.target, captured(), span)]
    } else {
        vec![capture]
    }
}

fn macro_of<'a>(node: &ast::Macro<'a>) -> ast::Macro<'a> {
    ast::Macro {
        name: node.name,
        args: node.args.iter().map(expression).collect(),
        defaults: node.defaults.iter().map(expression).collect(),
        body: body(&node.body),
    }
}

/// Macros are kept until the rendering ends, also those that a loop declares.
fn pay_for_macro<'a>(span: Span) -> Stmt<'a> {
    run(names::MACRO, Vec::new(), span)
}

/// A call of one of our functions as a statement.
fn run<'a>(function: &'static str, arguments: Vec<Expr<'a>>, span: Span) -> Stmt<'a> {
    let call = ast::Call {
        expr: node!(Expr::Var(span) { id: function }),
        args: arguments.into_iter().map(CallArg::Pos).collect(),
    };
    let call = Spanned::new(call, span);
    node!(Stmt::Do(span) { call: call })
}

fn constant<'a>(value: Value, span: Span) -> Expr<'a> {
    node!(Expr::Const(span) { value: value })
}

/// An expression through one of our filters.
fn charged<'a>(filter: &'static str, expr: Expr<'a>) -> Expr<'a> {
    filtered(filter, expr, Vec::new())
}

fn filtered<'a>(filter: &'static str, expr: Expr<'a>, others: Vec<Expr<'a>>) -> Expr<'a> {
    let span = expr.span();
    node!(Expr::Filter(span) {
        name: filter,
        expr: Some(expr),
        args: others.into_iter().map(CallArg::Pos).collect(),
    })
}

fn expression<'a>(expr: &Expr<'a>) -> Expr<'a> {
    let span = expr.span();
    match expr {
        Expr::Var(node) => node!(Expr::Var(span) { id: node.id }),
        Expr::Const(node) => constant(node.value.clone(), span),
        Expr::Slice(node) => slice(node, span),
        Expr::UnaryOp(node) => Expr::UnaryOp(Spanned::new(unary(node), span)),
        Expr::BinOp(node) => binary(node, span),
        Expr::Compare(node) => Expr::Compare(Spanned::new(comparison(node), span)),
        Expr::IfExpr(node) => Expr::IfExpr(Spanned::new(conditional(node), span)),
        Expr::Filter(node) => node!(Expr::Filter(span) {
            name: node.name,
            expr: node.expr.as_ref().map(expression),
            args: arguments(&node.args, None),
        }),
        Expr::Test(node) => node!(Expr::Test(span) {
            name: node.name,
            expr: expression(&node.expr),
            args: arguments(&node.args, None),
        }),
        Expr::GetAttr(node) => node!(Expr::GetAttr(span) {
            expr: expression(&node.expr),
            name: node.name,
        }),
        Expr::GetItem(node) => Expr::GetItem(Spanned::new(item(node), span)),
        Expr::Call(node) => Expr::Call(Spanned::new(call(node), span)),
        Expr::List(_) | Expr::Tuple(_) | Expr::Map(_) => literal(expr),
    }
}

fn unary<'a>(node: &ast::UnaryOp<'a>) -> ast::UnaryOp<'a> {
    ast::UnaryOp {
        op: match node.op {
            ast::UnaryOpKind::Not => ast::UnaryOpKind::Not,
            ast::UnaryOpKind::Neg => ast::UnaryOpKind::Neg,
        },
        expr: expression(&node.expr),
    }
}

fn conditional<'a>(node: &ast::IfExpr<'a>) -> ast::IfExpr<'a> {
    ast::IfExpr {
        test_expr: expression(&node.test_expr),
        true_expr: expression(&node.true_expr),
        false_expr: node.false_expr.as_ref().map(expression),
    }
}

fn slice<'a>(node: &ast::Slice<'a>, span: Span) -> Expr<'a> {
    let bound = |bound: &Option<Expr<'a>>| match bound {
        Some(bound) => expression(bound),
        None => constant(Value::from(()), span),
    };
    let bounds = [&node.start, &node.stop, &node.step].map(bound);
    filtered(names::SLICE, expression(&node.expr), bounds.into())
}

fn binary<'a>(node: &ast::BinOp<'a>, span: Span) -> Expr<'a> {
    let (left, right) = (expression(&node.left), expression(&node.right));
    let operator = match node.op {
        BinOpKind::Eq => names::EQUAL,
        BinOpKind::Ne => names::UNEQUAL,
        BinOpKind::Lt => names::LESS,
        BinOpKind::Lte => names::LESS_OR_EQUAL,
        BinOpKind::Gt => names::GREATER,
        BinOpKind::Gte => names::GREATER_OR_EQUAL,
        BinOpKind::In => names::IN,
        BinOpKind::Concat => names::CONCAT,
        BinOpKind::Mul => names::TIMES,
        BinOpKind::Rem => names::MODULO,
        op => {
            let computed = node!(Expr::BinOp(span) { op: op, left: left, right: right });
            return match op {
                BinOpKind::Add => charged(names::MADE, computed),
                _ => computed,
            };
        }
    };
    filtered(operator, left, vec![right])
}

/// A chain of comparisons, each of whose operands is weighed.
fn comparison<'a>(node: &ast::Compare<'a>) -> ast::Compare<'a> {
    let weighed = |operand| charged(names::WEIGHED, expression(operand));
    ast::Compare {
        expr: weighed(&node.expr),
        ops: node
            .ops
            .iter()
            .map(|compare| ast::CompareOp {
                op: compare.op,
                expr: weighed(&compare.expr),
            })
            .collect(),
    }
}

fn item<'a>(node: &ast::GetItem<'a>) -> ast::GetItem<'a> {
    let name = |key: &Expr| matches!(key, Expr::Const(key) if key.value.as_str().is_some());
    let (of, key) = (expression(&node.expr), expression(&node.subscript_expr));
    if name(&key) {
        return ast::GetItem {
            expr: of,
            subscript_expr: key,
        };
    }
    ast::GetItem {
        expr: charged(names::ITERATED, of),
        subscript_expr: charged(names::WEIGHED, key),
    }
}

fn call<'a>(node: &Spanned<ast::Call<'a>>) -> ast::Call<'a> {
    let charge = match &node.expr {
        Expr::GetAttr(method) if method.name == "changed" => Some(names::CHANGED),
        Expr::Var(function) if function.id == "loop" => Some(names::LOOPED),
        _ => None,
    };
    let mut args = arguments(&node.args, charge);
    let cycles = matches!(&node.expr, Expr::GetAttr(method) if method.name == "cycle");
    if cycles && !args.iter().any(|arg| matches!(arg, CallArg::Pos(_))) {
        args = cycled(args, node.span());
    }
    ast::Call {
        expr: expression(&node.expr),
        args,
    }
}

/// The arguments of `loop.cycle`, of which the library expects at least one.
fn cycled<'a>(args: Vec<CallArg<'a>>, span: Span) -> Vec<CallArg<'a>> {
    let none = || CallArg::PosSplat(constant(Value::from(()), span));
    let args = if args.is_empty() { vec![none()] } else { args };
    let some = |arg| match arg {
        CallArg::PosSplat(values) => CallArg::PosSplat(charged(names::CYCLED, values)),
        other => other,
    };
    args.into_iter().map(some).collect()
}

/// Arguments, each through a filter if there is one.
fn arguments<'a>(arguments: &[CallArg<'a>], charge: Option<&'static str>) -> Vec<CallArg<'a>> {
    let given = |value: &Expr<'a>| match charge {
        Some(filter) => charged(filter, expression(value)),
        None => expression(value),
    };
    let argument = |argument: &CallArg<'a>| match argument {
        CallArg::Pos(value) => CallArg::Pos(given(value)),
        CallArg::Kwarg(name, value) => CallArg::Kwarg(name, given(value)),
        CallArg::PosSplat(values) => CallArg::PosSplat(charged(names::SPLAT, given(values))),
        CallArg::KwargSplat(values) => CallArg::KwargSplat(charged(names::SPLAT, given(values))),
    };
    arguments.iter().map(argument).collect()
}

/// A list, a tuple or a mapping, weighed: as it is if it is constant and no list, which may grow.
fn literal<'a>(expr: &Expr<'a>) -> Expr<'a> {
    let span = expr.span();
    let all = |items: &[Expr<'a>]| items.iter().map(expression).collect();
    let built = match expr {
        Expr::List(node) => node!(Expr::List(span) { items: all(&node.items) }),
        Expr::Tuple(node) => node!(Expr::Tuple(span) { items: all(&node.items) }),
        Expr::Map(node) => node!(Expr::Map(span) {
            keys: node.keys.iter().map(weighed_key).collect(),
            values: all(&node.values),
        }),
        other => return expression(other),
    };
    match (built.as_const(), expr) {
        (Some(_), Expr::Tuple(_) | Expr::Map(_)) => built,
        _ => charged(names::NESTED, built),
    }
}

fn weighed_key<'a>(key: &Expr<'a>) -> Expr<'a> {
    match key {
        Expr::Const(_) => expression(key),
        _ => charged(names::WEIGHED, expression(key)),
    }
}
