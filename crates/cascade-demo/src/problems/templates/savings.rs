//! Wages, savings and coins.

use super::prelude::*;

pub(super) const ALL: [Template; 6] = [
    template!(weekly_savings),
    template!(weeks_to_goal, held out),
    template!(wages),
    template!(lawns),
    template!(doubled),
    template!(coins),
];

fn weekly_savings(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let (has, saves, weeks) = (
        draw.number(5..=60),
        draw.number(3..=12),
        draw.number(2..=12),
    );
    let saved = saves * weeks;
    let total = has + saved;
    Story::new(
        [
            say!(draw; "{name} has ${has}.", "{name} starts with ${has}.",
                "There is ${has} in the bank of {name}."),
            say!(draw; "{starts} saves ${saves} every week.",
                "Each week {she} puts ${saves} aside."),
        ],
        say!(draw; "How much money does {name} have after {weeks} weeks?",
            "How many dollars are there {weeks} weeks later?"),
        [
            format!("In {weeks} weeks {name} saves {saves} * {weeks} = ${saved}."),
            format!("Then {she} has {has} + {saved} = ${total}."),
        ],
        total,
    )
}

fn weeks_to_goal(draw: &mut Draw) -> Story {
    let Person { name, starts, .. } = draw.person();
    let Thing { one, .. } = draw.thing(&GOODS);
    let (saves, weeks, has) = (
        draw.number(3..=12),
        draw.number(2..=10),
        draw.number(3..=40),
    );
    let missing = saves * weeks;
    let price = missing + has;
    Story::new(
        [
            say!(draw; "{name} wants to buy a {one} for ${price} and has ${has}.",
                "A {one} costs ${price}, and {name} has ${has}."),
            say!(draw; "{starts} saves ${saves} a week.", "{starts} gets ${saves} every week.",
                "Every week {name} saves ${saves}."),
        ],
        say!(draw; "In how many weeks can {name} buy it?", "How many weeks does it take?"),
        [
            format!("{name} needs {price} - {has} = ${missing} more."),
            format!("That takes {missing} / {saves} = {weeks} weeks."),
        ],
        weeks,
    )
}

fn wages(draw: &mut Draw) -> Story {
    let Person {
        name, she, starts, ..
    } = draw.person();
    let Thing { one, .. } = draw.thing(&GOODS);
    let (wage, hours) = (draw.number(6..=12), draw.number(2..=12));
    let earned = wage * hours;
    let spent = draw.number(3..=earned - 3);
    let left = earned - spent;
    Story::new(
        [
            say!(draw; "{name} earns ${wage} an hour and works {hours} hours.",
                "{name} works {hours} hours for ${wage} an hour.",
                "For each of {hours} hours of work, {name} gets ${wage}."),
            say!(draw; "Then {she} spends ${spent} on a {one}.",
                "{starts} buys a {one} for ${spent}."),
        ],
        say!(draw; "How much money is left?", "How many dollars does {name} have left?"),
        [
            format!("{name} earns {wage} * {hours} = ${earned}."),
            format!("Then {earned} - {spent} = ${left} are left."),
        ],
        left,
    )
}

fn lawns(draw: &mut Draw) -> Story {
    let Person { name, her, .. } = draw.person();
    let relative = draw.one_of(&RELATIVES);
    let (work, does) = draw.one_of(&[
        ("lawns", "mows"),
        ("cars", "washes"),
        ("fences", "paints"),
        ("windows", "cleans"),
    ]);
    let (count, half_pay) = (draw.number(2..=12), draw.number(2..=6));
    let pay = 2 * half_pay;
    let earned = count * pay;
    let half = earned / 2;
    Story::new(
        [
            say!(draw; "{name} {does} {count} {work} with {her} {relative}.",
                "With {her} {relative}, {name} {does} {count} {work}."),
            say!(draw; "They get ${pay} for each.", "For each of them they are paid ${pay}.",
                "Each brings ${pay}."),
            say!(draw; "They share the money equally.", "Each of the two takes half."),
        ],
        say!(draw; "How much does {name} get?", "How many dollars does each get?"),
        [
            format!("They earn {count} * {pay} = ${earned}."),
            format!("Each gets {earned} / 2 = ${half}."),
        ],
        half,
    )
}

fn doubled(draw: &mut Draw) -> Story {
    let Person {
        name, her, starts, ..
    } = draw.person();
    let relative = draw.one_of(&RELATIVES);
    let (has, spent) = (draw.number(6..=40), draw.number(2..=10));
    let gift = draw.number(2..=20);
    let (double, with_gift) = (2 * has, 2 * has + gift);
    let left = with_gift - spent;
    Story::new(
        [
            say!(draw; "{name} has ${has}, and {her} {relative} doubles it.",
                "{name} has ${has}. Then {her} {relative} gives as much again."),
            say!(draw; "{starts} finds another ${gift}.", "{starts} gets ${gift} more as a gift.",
                "{starts} earns ${gift} more."),
            say!(draw; "{starts} spends ${spent}.", "{starts} pays ${spent} for lunch."),
        ],
        say!(draw; "How much does {name} have now?", "How many dollars are left?"),
        [
            format!("Twice as much is {has} * 2 = ${double}."),
            format!("With ${gift} more it is {double} + {gift} = ${with_gift}."),
            format!("After paying, {name} has {with_gift} - {spent} = ${left}."),
        ],
        left,
    )
}

fn coins(draw: &mut Draw) -> Story {
    let Person { name, .. } = draw.person();
    let (dimes, nickels) = (draw.number(2..=12), draw.number(2..=12));
    let (first, second) = (10 * dimes, 5 * nickels);
    let total = first + second;
    Story::new(
        [
            say!(draw; "{name} has {dimes} coins of 10 cents and {nickels} coins of 5 cents.",
            "There are {dimes} coins of 10 cents and {nickels} of 5 cents in the jar of {name}.",
            "{name} finds {dimes} coins of 10 cents and {nickels} coins of 5 cents.",
            "In the pocket of {name} are {dimes} coins of 10 cents and {nickels} of 5 cents."),
        ],
        say!(draw; "How many cents is that?", "How many cents does {name} have?",
            "How much is it in cents?"),
        [
            format!("The large coins are {dimes} * 10 = {first} cents."),
            format!("The small coins are {nickels} * 5 = {second} cents."),
            format!("Together it is {first} + {second} = {total} cents."),
        ],
        total,
    )
}
